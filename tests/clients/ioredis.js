'use strict';
// ioredis with its default options, but where an option is what a scenario is about.

const { assert, binary, run, scenario, servers, sizes, toServer, until } = require('./scenarios');
const Redis = require('ioredis');

/** Gives the body a client on an empty server, and ends it afterwards. */
async function withClient(options, body) {
  const client = new Redis(servers.port, options);
  client.on('error', () => {}); // a connection that is refused while the server starts anew is no fault
  try {
    await client.flushall();
    await body(client);
  } finally {
    client.disconnect();
  }
}

function clientScenario(name, body, options = {}) {
  scenario(name, () => withClient(options, body));
}

clientScenario('connects, and takes the server for ready', async (client) => {
  assert.equal(client.status, 'ready');
  assert.equal(await client.ping(), 'PONG');
  assert.equal(await client.echo('hello'), 'hello');
  assert.match(await client.info(), /\r\nredis_mode:standalone\r\n/);
  assert.equal(await client.quit(), 'OK');
});

clientScenario('strings and keys', async (client) => {
  assert.equal(await client.set('name', 'ünïcödé'), 'OK');
  assert.equal(await client.get('name'), 'ünïcödé');
  assert.equal(await client.get('nothing'), null);
  assert.equal(await client.set('name', 'x', 'NX'), null);
  assert.equal(await client.set('name', 'x', 'XX', 'GET'), 'ünïcödé');
  assert.equal(await client.mset({ a: 1, b: 2, c: 'three' }), 'OK');
  assert.equal(await client.mset(new Map([['d', 'four']])), 'OK');
  assert.deepEqual(await client.mget('a', 'b', 'nothing', 'c', 'd'), ['1', '2', null, 'three', 'four']);
  assert.equal(await client.incr('a'), 2);
  assert.equal(await client.incrby('a', 40), 42);
  assert.equal(await client.incrbyfloat('a', 0.5), '42.5');
  assert.equal(await client.append('c', '!'), 6);
  assert.equal(await client.getrange('c', -3, -1), 'ee!');
  assert.equal(await client.exists('a', 'b', 'nothing'), 2);
  assert.equal(await client.type('a'), 'string');
  assert.equal(await client.rename('a', 'z'), 'OK');
  assert.deepEqual((await client.keys('*')).sort(), ['b', 'c', 'd', 'name', 'z']);
  assert.equal(await client.del('b', 'c', 'nothing'), 2);
  assert.equal(await client.dbsize(), 3);
  assert.equal(await client.call('STRLEN', 'z'), 4);
  assert.deepEqual(await client.config('GET', 'maxclients'), ['maxclients', '10000']);
});

clientScenario('keys expire', async (client) => {
  await client.set('long', 'v', 'EX', 1000);
  assert.ok((await client.ttl('long')) > 990);
  assert.equal(await client.persist('long'), 1);
  assert.equal(await client.ttl('long'), -1);
  assert.equal(await client.pexpire('long', 500000), 1);
  assert.ok((await client.pttl('long')) > 490000);
  await client.set('short', 'v', 'PX', 30);
  await until(async () => (await client.get('short')) === null);
  assert.equal(await client.pttl('short'), -2);
  assert.equal(await client.setex('other', 1000, 'v'), 'OK');
  assert.equal(await client.getex('other', 'PERSIST'), 'v');
  assert.equal(await client.ttl('other'), -1);
});

clientScenario('a pipeline of many commands keeps their order, errors among them', async (client) => {
  const pipeline = client.pipeline();
  for (let i = 0; i < 1000; i++) pipeline.set('key:' + i, i).incr('key:' + i).get('key:' + i);
  pipeline.set('text', 'abc').incr('text').get('text').mget('key:0', 'key:999', 'nothing');
  const replies = await pipeline.exec();
  assert.equal(replies.length, 3004);
  for (let i = 0; i < 1000; i++) {
    assert.deepEqual(replies.slice(3 * i, 3 * i + 3), [[null, 'OK'], [null, i + 1], [null, String(i + 1)]]);
  }
  assert.match(replies[3001][0].message, /^ERR value is not an integer or out of range/);
  assert.deepEqual(replies[3002], [null, 'abc']);
  assert.deepEqual(replies[3003], [null, ['1', '1000', null]]);
});

clientScenario('commands are put into pipelines by themselves', async (client) => {
  const keys = Array.from({ length: 2000 }, (_, i) => 'key:' + i);
  await Promise.all(keys.map((key, i) => client.set(key, i)));
  assert.deepEqual(await Promise.all(keys.map((key) => client.get(key))), keys.map((_, i) => String(i)));
}, { enableAutoPipelining: true });

clientScenario('streams of SCAN', async (client) => {
  const keys = Array.from({ length: 2000 }, (_, i) => 'key:' + i);
  await client.mset(...keys.flatMap((key) => [key, 'v']), 'other', 'v');
  const seen = new Set();
  for await (const some of client.scanStream({ match: 'key:*', count: 50 })) for (const key of some) seen.add(key);
  assert.deepEqual([...seen].sort(), [...keys].sort());
  let all = 0;
  for await (const some of client.scanBufferStream()) all += some.length;
  assert.ok(all >= 2001);
  for await (const some of client.scanStream({ type: 'list' })) assert.deepEqual(some, []);
});

clientScenario('a prefix for all keys', async (client) => {
  await client.mset('a', 1, 'b', 2);
  assert.deepEqual(await client.mget('a', 'b'), ['1', '2']);
  assert.equal(await client.copy('a', 'c'), 1);
  assert.deepEqual((await client.keys('*')).sort(), ['app:a', 'app:b', 'app:c']);
}, { keyPrefix: 'app:' });

clientScenario('a name for the connection', async (client) => {
  assert.equal(await client.client('GETNAME'), 'worker-7');
  assert.match(await client.client('LIST'), / name=worker-7 /);
  assert.equal(await client.client('SETNAME', 'other'), 'OK');
  assert.equal(await client.client('GETNAME'), 'other');
}, { connectionName: 'worker-7' });

clientScenario('databases', async (client) => {
  await client.set('k', 'three');
  await client.select(5);
  assert.equal(await client.get('k'), null);
  await client.set('k', 'five');
  const third = client.duplicate({ db: 3 });
  assert.equal(await third.get('k'), 'three');
  third.disconnect();
  assert.equal(await client.move('k', 0), 1);
  await client.select(0);
  assert.equal(await client.get('k'), 'five');
}, { db: 3 });

clientScenario('errors are replies', async (client) => {
  await client.set('text', 'abc');
  const wrong = { name: 'ReplyError' };
  await assert.rejects(client.incr('text'), { ...wrong, message: 'ERR value is not an integer or out of range' });
  await assert.rejects(client.call('NONSENSE', 'a', 'b'), { ...wrong, message: "ERR unknown command 'NONSENSE', with args beginning with: 'a' 'b' " });
  await assert.rejects(client.call('GET'), { ...wrong, message: "ERR wrong number of arguments for 'get' command" });
  await assert.rejects(client.set('k', 'v', 'EX', 0), { ...wrong, message: "ERR invalid expire time in 'set' command" });
  await assert.rejects(client.select(99), { ...wrong, message: 'ERR DB index is out of range' });
  assert.equal(await client.get('text'), 'abc');
});

scenario('a password', async () => {
  const port = servers.portWithPassword;
  const right = new Redis({ port, password: servers.password, db: 2, connectionName: 'named' });
  assert.equal(await right.set('k', 'v'), 'OK');
  assert.equal(await right.client('GETNAME'), 'named');
  right.disconnect();
  const user = new Redis('redis://default:' + servers.password + '@127.0.0.1:' + port + '/2');
  assert.equal(await user.get('k'), 'v');
  user.disconnect();
  for (const [options, says] of [[{ password: 'wrong' }, /WRONGPASS /], [{}, /NOAUTH /]]) {
    const client = new Redis({ port, ...options, retryStrategy: null });
    client.on('error', () => {});
    await assert.rejects(client.get('k'), says);
    client.disconnect();
  }
});

clientScenario('values of all sizes come back as they were', async (client) => {
  const values = sizes.map(binary);
  await Promise.all(values.map((value, i) => client.set('big:' + i, value)));
  for (const [i, value] of values.entries()) assert.ok(value.equals(await client.getBuffer('big:' + i)), 'of ' + value.length + ' bytes');
  const together = await client.mgetBuffer(values.map((_, i) => 'big:' + i));
  assert.ok(values.every((value, i) => value.equals(together[i])));
  const pipeline = client.pipeline();
  for (let i = 0; i < 3; i++) pipeline.set('big', values.at(-1)).getBuffer('big').strlen('big');
  for (const [i, [error, reply]] of (await pipeline.exec()).entries()) {
    assert.equal(error, null);
    if (i % 3 === 1) assert.ok(values.at(-1).equals(reply));
    if (i % 3 === 2) assert.equal(reply, values.at(-1).length);
  }
});

scenario('a Unix socket', async () => {
  const client = new Redis(servers.socket);
  const value = binary(100000);
  assert.equal(await client.set('k', value), 'OK');
  assert.ok(value.equals(await client.getBuffer('k')));
  client.disconnect();
});

clientScenario('many clients count together', async (client) => {
  const clients = Array.from({ length: 30 }, () => client.duplicate());
  const counts = await Promise.all(clients.flatMap((each) => Array.from({ length: 20 }, () => each.incr('n'))));
  assert.deepEqual(counts.sort((a, b) => a - b), Array.from({ length: 600 }, (_, i) => i + 1));
  await Promise.all(clients.map((each) => each.quit()));
});

clientScenario('a killed connection is opened again, with its name and database', async (client) => {
  const killer = client.duplicate();
  const id = await client.client('ID');
  assert.equal(await killer.client('KILL', 'ID', id), 1);
  await until(async () => (await client.client('ID')) !== id);
  assert.equal(await client.client('GETNAME'), 'again');
  await client.set('k', 'v');
  assert.match(await client.info('keyspace'), /\r\ndb4:keys=1,/);
  killer.disconnect();
}, { connectionName: 'again', db: 4 });

/** Commands given while there is no server are answered by the next one. */
async function outlivesTheServer(client, how) {
  await client.set('k', 'v');
  // The first attempt to connect again may still reach the old server, but one that is refused says that it is gone.
  const refused = new Promise((resolve) => client.on('error', (error) => error.code === 'ECONNREFUSED' && resolve()));
  await toServer(how);
  await refused;
  const queued = [client.set('later', 'v'), client.incr('n'), client.client('GETNAME')];
  await toServer('start');
  assert.deepEqual(await Promise.all(queued), ['OK', 1, 'steady']);
  assert.equal(await client.get('later'), 'v');
}

clientScenario('the server is started anew', (client) => outlivesTheServer(client, 'stop'), { connectionName: 'steady' });

clientScenario('the server is killed and started anew', (client) => outlivesTheServer(client, 'kill'), { connectionName: 'steady' });

clientScenario('monitor sees what others do', async (client) => {
  const monitor = await client.monitor();
  const seen = new Promise((resolve) => monitor.on('monitor', (_, command) => command[0].toLowerCase() === 'set' && resolve(command)));
  await client.set('watched', 'value');
  const [name, ...rest] = await seen;
  assert.deepEqual([name.toLowerCase(), ...rest], ['set', 'watched', 'value']);
  monitor.disconnect();
});

run();
