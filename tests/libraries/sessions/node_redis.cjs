// node-redis: automatic pipelines, transactions, and a script of its own.
const assert = require('node:assert');
const { createClient, defineScript } = require('redis');

const SCRIPT = "return redis.call('INCRBY', KEYS[1], redis.call('GET', KEYS[1]))";
const double = defineScript({
  SCRIPT,
  NUMBER_OF_KEYS: 1,
  parseCommand: (parser, key) => parser.pushKey(key),
  transformReply: undefined,
});

async function round(client) {
  const visits = 'app:{1}:visits';
  assert.deepStrictEqual(await Promise.all([client.set(visits, 1, { EX: 60 }), client.incr(visits)]), ['OK', 2]);
  assert.strictEqual(await client.double(visits), 4);
  assert.deepStrictEqual(await client.multi().incr(visits).double(visits).exec(), [5, 10]);
  await client.hSet('app:{1}:user', { name: 'ada' });
  assert.strictEqual((await client.hGetAll('app:{1}:user')).name, 'ada');
  assert.strictEqual(await client.del([visits, 'app:{1}:user']), 2);
}

exports.use = async function* use(url) {
  const client = createClient({ url, scripts: { double } });
  client.on('error', () => {});
  await client.connect();
  try {
    await round(client);
    yield;
    await round(client);
  } finally {
    client.destroy();
  }
};
