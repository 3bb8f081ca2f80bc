'use strict';
// What the programs of the Node clients share.
//
// A program names its scenarios by scenario(name, body) and ends with run(). Each scenario's outcome is a line of JSON on the standard output, which
// programs.py reads: {name, fault}. A scenario may ask programs.py to end the server and to start it anew (toServer), and is answered when that is done.

const assert = require('node:assert/strict');
const crypto = require('node:crypto');
const readline = require('node:readline');

// Where the servers are: the one that most scenarios use (its port, its socket), and one that wants a password.
const servers = {
  port: Number(process.env.SERVER_PORT),
  socket: process.env.SERVER_SOCKET,
  portWithPassword: Number(process.env.SERVER_PORT_WITH_PASSWORD),
  password: process.env.SERVER_PASSWORD,
};
const slow = Number(process.env.DARTER_TEST_SLOW || 1);

const scenarios = [];
let answered = null; // called when programs.py has answered a request
let stray = null; // called with an error that no scenario waited for

function scenario(name, body) {
  scenarios.push({ name, body });
}

function say(message) {
  process.stdout.write(JSON.stringify(message) + '\n');
}

/** Lets programs.py end the server, in order ('stop') or at once ('kill'), or start it anew, empty, on the same port ('start'). */
async function toServer(what) {
  const done = new Promise((resolve) => (answered = resolve));
  say({ server: what });
  await done;
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** Waits until the promise that ask() makes resolves to something true. */
async function until(ask) {
  while (!(await ask())) await pause(5);
}

/** Bytes of every kind, none of them text. */
function binary(size) {
  return crypto.randomBytes(size);
}

/** Values around the sizes at which servers change how they keep and send them. */
const sizes = [0, 1, 255, 256, 4095, 16383, 16384, 16385, 65536, 1 << 20, 5 << 20];

async function one(body) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('it took too long')), 60000 * slow);
  });
  const strayed = new Promise((_, reject) => (stray = reject));
  try {
    await Promise.race([body(), late, strayed]);
    return null;
  } catch (error) {
    return error.stack || String(error);
  } finally {
    clearTimeout(timer);
  }
}

async function run() {
  readline.createInterface({ input: process.stdin }).on('line', () => answered());
  process.on('unhandledRejection', (error) => stray(error));
  process.on('uncaughtException', (error) => stray(error));
  for (const { name, body } of scenarios) say({ name, fault: await one(body) });
  process.exit(0);
}

module.exports = { assert, binary, run, scenario, servers, sizes, toServer, until };
