// ioredis: pipelines, transactions, automatic pipelining, and scripts in each of them.
const assert = require('node:assert');
const Redis = require('ioredis');

async function round(client, batched) {
  const visits = 'app:{1}:visits';
  await client.set(visits, 1, 'EX', 60);
  assert.deepStrictEqual(await client.pipeline().incr(visits).double(visits).exec(), [[null, 2], [null, 4]]);
  assert.deepStrictEqual(await client.multi().incr(visits).double(visits).exec(), [[null, 5], [null, 10]]);
  assert.strictEqual(await client.double(visits), 20);
  assert.deepStrictEqual(await Promise.all([batched.get(visits), batched.double(visits)]), ['20', 40]);
  await client.watch(visits);
  assert.deepStrictEqual(await client.multi().get(visits).exec(), [[null, '40']]);
  assert.strictEqual(await client.del(visits), 1);
}

exports.use = async function* use(url) {
  const client = new Redis(url);
  const batched = new Redis(url, { enableAutoPipelining: true });
  for (const each of [client, batched]) {
    each.on('error', () => {});
    const lua = "return redis.call('INCRBY', KEYS[1], redis.call('GET', KEYS[1]))";
    each.defineCommand('double', { numberOfKeys: 1, lua });
  }
  try {
    await round(client, batched);
    yield;
    await round(client, batched);
  } finally {
    client.disconnect();
    batched.disconnect();
  }
};
