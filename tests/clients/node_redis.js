'use strict';
// node-redis (the package redis) with its default options, but where an option is what a scenario is about. Its protocol is RESP_VERSION, 2 or 3.

const { assert, binary, run, scenario, servers, sizes, toServer, until } = require('./scenarios');
const { RESP_TYPES, createClient, createClientPool } = require('redis');

const RESP = Number(process.env.RESP_VERSION);
const url = 'redis://127.0.0.1:' + servers.port;

async function connect(options) {
  const client = createClient({ url, RESP, ...options });
  client.on('error', () => {}); // a connection that is refused while the server starts anew is no fault
  return client.connect();
}

/** Gives the body a client on an empty server, and ends it afterwards. */
async function withClient(options, body) {
  const client = await connect(options);
  try {
    await client.flushAll();
    await body(client);
  } finally {
    client.destroy();
  }
}

function clientScenario(name, body, options = {}) {
  scenario(name, () => withClient(options, body));
}

const asBuffers = (client) => client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });

scenario('connects, and speaks the protocol that was asked for', async () => {
  const client = await connect();
  assert.ok(client.isReady);
  assert.equal(await client.ping(), 'PONG');
  assert.equal(await client.echo('hello'), 'hello');
  assert.match(await client.sendCommand(['CLIENT', 'INFO']), new RegExp(' resp=' + RESP + '\\b'));
  assert.match(await client.info('server'), /\r\nredis_mode:standalone\r\n/);
  await client.close();
});

clientScenario('strings and keys', async (client) => {
  assert.equal(await client.set('name', 'ünïcödé'), 'OK');
  assert.equal(await client.get('name'), 'ünïcödé');
  assert.equal(await client.get('nothing'), null);
  assert.equal(await client.set('name', 'x', { condition: 'NX' }), null);
  assert.equal(await client.set('name', 'x', { condition: 'XX', GET: true }), 'ünïcödé');
  assert.equal(await client.mSet({ a: '1', b: '2', c: 'three' }), 'OK');
  assert.deepEqual(await client.mGet(['a', 'b', 'nothing', 'c']), ['1', '2', null, 'three']);
  assert.equal(await client.mSetNX({ a: '1', new: '2' }), 0);
  assert.equal(await client.incr('a'), 2);
  assert.equal(await client.incrBy('a', 40), 42);
  assert.equal(await client.incrByFloat('a', 0.5), '42.5');
  assert.equal(await client.append('c', '!'), 6);
  assert.equal(await client.getRange('c', -3, -1), 'ee!');
  assert.equal(await client.exists(['a', 'b', 'nothing']), 2);
  assert.equal(await client.type('a'), 'string');
  assert.equal(await client.rename('a', 'z'), 'OK');
  assert.equal(await client.copy('z', 'y'), 1);
  assert.equal(await client.getDel('y'), '42.5');
  assert.deepEqual((await client.keys('*')).sort(), ['b', 'c', 'name', 'z']);
  assert.equal(await client.del(['b', 'c', 'nothing']), 2);
  assert.equal(await client.dbSize(), 2);
  assert.equal(await client.sendCommand(['STRLEN', 'z']), 4);
});

clientScenario('structured replies', async (client) => {
  assert.deepEqual({ ...(await client.configGet('maxclients')) }, { maxclients: '10000' });
  await client.mSet({ one: 'ohmytext', two: 'mynewtext' });
  assert.equal(await client.lcs('one', 'two'), 'mytext');
  assert.deepEqual({ ...(await client.lcsIdx('one', 'two')) }, { matches: [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], len: 6 });
  assert.equal((await client.commandInfo(['get']))[0].name, 'get');
  assert.ok((await client.commandCount()) > 70);
  assert.ok((await client.commandList()).includes('config|get'));
  assert.deepEqual(await client.commandGetKeys(['MSET', 'a', '1', 'b', '2']), ['a', 'b']);
  assert.ok((await client.memoryUsage('one')) > 8);
  assert.ok((await client.memoryStats())['keys.count'] >= 2);
  const info = await client.clientInfo();
  assert.equal(info.id, await client.clientId());
  assert.equal((await client.clientList()).filter((each) => each.id === info.id).length, 1);
  assert.ok((await client.time()) !== null);
  assert.equal(await client.objectEncoding('one'), 'embstr');
  assert.ok(Array.isArray(await client.latencyLatest()));
});

clientScenario('keys expire', async (client) => {
  await client.set('long', 'v', { expiration: { type: 'EX', value: 1000 } });
  assert.ok((await client.ttl('long')) > 990);
  assert.equal(await client.persist('long'), 1);
  assert.equal(await client.ttl('long'), -1);
  assert.equal(await client.pExpire('long', 500000), 1);
  assert.equal(await client.pExpire('long', 400000, 'GT'), 0);
  assert.ok((await client.pTTL('long')) > 490000);
  await client.set('short', 'v', { expiration: { type: 'PX', value: 30 } });
  await until(async () => (await client.get('short')) === null);
  assert.equal(await client.pTTL('short'), -2);
  assert.equal(await client.getEx('long', { type: 'PERSIST' }), 'v');
  assert.equal(await client.expireTime('long'), -1);
});

clientScenario('commands of one turn go out together and come back in order', async (client) => {
  const work = [];
  for (let i = 0; i < 1000; i++) work.push(client.set('key:' + i, String(i)), client.incr('key:' + i), client.get('key:' + i));
  const replies = await Promise.all(work);
  for (let i = 0; i < 1000; i++) assert.deepEqual(replies.slice(3 * i, 3 * i + 3), ['OK', i + 1, String(i + 1)]);
});

clientScenario('pipelines, and errors in the middle of one', async (client) => {
  assert.deepEqual(await client.multi().set('text', 'abc').append('text', 'd').get('text').mGet(['text', 'nothing']).execAsPipeline(), ['OK', 4, 'abcd', ['abcd', null]]);
  const settled = await Promise.allSettled([client.set('text', 'abc'), client.incr('text'), client.get('text')]);
  assert.deepEqual(settled.map((each) => each.status), ['fulfilled', 'rejected', 'fulfilled']);
  assert.equal(settled[1].reason.message, 'ERR value is not an integer or out of range');
  assert.equal(settled[2].value, 'abc');
});

clientScenario('iterators of SCAN', async (client) => {
  const keys = Array.from({ length: 2000 }, (_, i) => 'key:' + i);
  await client.mSet([...keys, 'other'].map((key) => [key, 'v']));
  const seen = new Set();
  for await (const some of client.scanIterator({ MATCH: 'key:*', COUNT: 50 })) for (const key of some) seen.add(key);
  assert.deepEqual([...seen].sort(), [...keys].sort());
  for await (const some of client.scanIterator({ TYPE: 'list' })) assert.deepEqual(some, []);
});

clientScenario('a name for the connection', async (client) => {
  assert.equal(await client.clientGetName(), 'worker-7');
  assert.equal((await client.clientInfo()).name, 'worker-7');
  assert.equal(await client.clientSetName('other'), 'OK');
  assert.equal(await client.clientGetName(), 'other');
}, { name: 'worker-7' });

clientScenario('databases', async (client) => {
  await client.set('k', 'three');
  await client.select(5);
  assert.equal(await client.get('k'), null);
  await client.set('k', 'five');
  const third = await connect({ database: 3 });
  assert.equal(await third.get('k'), 'three');
  await third.close();
  assert.equal(await client.move('k', 0), 1);
  await client.select(0);
  assert.equal(await client.get('k'), 'five');
}, { database: 3 });

clientScenario('errors are replies', async (client) => {
  await client.set('text', 'abc');
  await assert.rejects(client.incr('text'), { message: 'ERR value is not an integer or out of range' });
  await assert.rejects(client.sendCommand(['NONSENSE', 'a', 'b']), { message: "ERR unknown command 'NONSENSE', with args beginning with: 'a' 'b' " });
  await assert.rejects(client.sendCommand(['GET']), { message: "ERR wrong number of arguments for 'get' command" });
  await assert.rejects(client.select(99), { message: 'ERR DB index is out of range' });
  assert.equal(await client.get('text'), 'abc');
});

scenario('a password', async () => {
  const withPassword = { url: undefined, socket: { host: '127.0.0.1', port: servers.portWithPassword, reconnectStrategy: false } };
  const right = await connect({ ...withPassword, password: servers.password, database: 2, name: 'named' });
  assert.equal(await right.set('k', 'v'), 'OK');
  assert.equal(await right.clientGetName(), 'named');
  await right.close();
  const user = await connect({ url: 'redis://default:' + servers.password + '@127.0.0.1:' + servers.portWithPassword + '/2' });
  assert.equal(await user.get('k'), 'v');
  await user.close();
  await assert.rejects(connect({ ...withPassword, password: 'wrong' }), /WRONGPASS /);
  // In RESP3 the greeting itself is refused, in RESP2 the first command.
  await assert.rejects(connect(withPassword).then((client) => client.get('k').finally(() => client.destroy())), /NOAUTH/);
});

clientScenario('values of all sizes come back as they were', async (client) => {
  const values = sizes.map(binary);
  await Promise.all(values.map((value, i) => client.set('big:' + i, value)));
  const buffers = asBuffers(client);
  for (const [i, value] of values.entries()) assert.ok(value.equals(await buffers.get('big:' + i)), 'of ' + value.length + ' bytes');
  const together = await buffers.mGet(values.map((_, i) => 'big:' + i));
  assert.ok(values.every((value, i) => value.equals(together[i])));
  const several = await Promise.all(Array.from({ length: 3 }, () => buffers.get('big:' + (values.length - 1))));
  assert.ok(several.every((value) => value.equals(values.at(-1))));
});

scenario('a Unix socket', async () => {
  const client = await connect({ url: undefined, socket: { path: servers.socket } });
  const value = binary(100000);
  assert.equal(await client.set('k', value), 'OK');
  assert.ok(value.equals(await asBuffers(client).get('k')));
  await client.close();
});

clientScenario('a pool of connections', async () => {
  const pool = await createClientPool({ url, RESP }, { minimum: 5, maximum: 20 }).connect();
  const counts = await Promise.all(Array.from({ length: 600 }, () => pool.incr('n')));
  assert.deepEqual(counts.sort((a, b) => a - b), Array.from({ length: 600 }, (_, i) => i + 1));
  await pool.close();
});

clientScenario('a killed connection is opened again, with its name and database', async (client) => {
  const killer = await connect();
  const id = await client.clientId();
  assert.equal(await killer.sendCommand(['CLIENT', 'KILL', 'ID', String(id)]), 1);
  // A command that was on its way fails; those that come later wait for the new connection.
  await until(async () => (await client.clientId().catch(() => id)) !== id);
  assert.equal(await client.clientGetName(), 'again');
  await client.set('k', 'v');
  assert.match(await client.info('keyspace'), /\r\ndb4:keys=1,/);
  await killer.close();
}, { name: 'again', database: 4 });

/** Commands given while there is no server are answered by the next one. */
async function outlivesTheServer(client, how) {
  await client.set('k', 'v');
  // The first attempt to connect again may still reach the old server, but one that is refused says that it is gone.
  const refused = new Promise((resolve) => client.on('error', (error) => error.code === 'ECONNREFUSED' && resolve()));
  await toServer(how);
  await refused;
  const queued = [client.set('later', 'v'), client.incr('n'), client.clientGetName()];
  await toServer('start');
  assert.deepEqual(await Promise.all(queued), ['OK', 1, 'steady']);
  assert.equal(await client.get('later'), 'v');
}

clientScenario('the server is started anew', (client) => outlivesTheServer(client, 'stop'), { name: 'steady' });

clientScenario('the server is killed and started anew', (client) => outlivesTheServer(client, 'kill'), { name: 'steady' });

run();
