// ioredis's Cluster over its common paths. Arguments: a port, the number of advertised addresses, the number of keys `key:…`.
const assert = require('node:assert');
const Redis = require('ioredis');

async function overNodes(cluster, ask) {
  return (await Promise.all(cluster.nodes('master').map(ask))).flat();
}

async function everyday(cluster) {
  assert.strictEqual(await cluster.set('k', 'v', 'EX', 100), 'OK');
  assert.strictEqual(await cluster.get('k'), 'v');
  await cluster.hset('h', { f: '1', g: '2' });
  assert.deepStrictEqual(await cluster.hgetall('h'), { f: '1', g: '2' });
  const tokens = Array.from({ length: 300 }, (_, i) => `token-${i}`);
  await Promise.all(tokens.map((t) => cluster.set(t, t)));
  assert.deepStrictEqual(await Promise.all(tokens.map((t) => cluster.get(t))), tokens);
  assert.deepStrictEqual(await cluster.mget('{m}a', '{m}b'), [null, null]);

  const piped = await cluster.pipeline().set('{p}a', 1).incr('{p}a').lpush('{p}a', 'x').get('{p}b').exec();
  assert.deepStrictEqual([piped[0], piped[1], piped[3]], [[null, 'OK'], [null, 2], [null, null]]);
  assert.match(piped[2][0].message, /WRONGTYPE/);
  assert.deepStrictEqual(await cluster.multi().set('{t}a', 1).incr('{t}a').get('{t}b').exec(), [[null, 'OK'], [null, 2], [null, null]]);

  cluster.defineCommand('both', { numberOfKeys: 1, lua: 'return {KEYS[1], ARGV[1]}' });
  for (const key of ['a', 'b', 'c', 'a']) assert.deepStrictEqual(await cluster.both(key, 'x'), [key, 'x']);
  const popped = cluster.duplicate().blpop('queue', 20);
  await cluster.rpush('queue', 'job');
  assert.deepStrictEqual(await popped, ['queue', 'job']);
  await assert.rejects(cluster.call('NOSUCHCOMMAND', 'k'), /unknown command/);
  await cluster.set('large', 'x'.repeat(2_000_000));
  assert.strictEqual((await cluster.get('large')).length, 2_000_000);
  for (const key of [...tokens, 'k', 'h', '{p}a', '{t}a', 'large']) assert.strictEqual(await cluster.del(key), 1);
}

async function channels(cluster) {
  const heard = new Promise((resolve) => cluster.on('message', (channel, text) => resolve([channel, text])));
  await cluster.subscribe('news');
  await cluster.publish('news', 'hello'); // of a cluster's nodes each counts its own subscribers
  assert.deepStrictEqual(await heard, ['news', 'hello']);
  const counts = await Promise.all(cluster.nodes('all').map((node) => node.pubsub('NUMSUB', 'news'))); // as Socket.IO does
  assert.strictEqual(counts.reduce((sum, [, count]) => sum + count, 0), 1);
  await cluster.unsubscribe('news');
  const heardOfShard = new Promise((resolve) => cluster.on('smessage', (channel, text) => resolve([channel, text])));
  await cluster.ssubscribe('shard-news');
  assert.strictEqual(await cluster.spublish('shard-news', 'hello'), 1);
  assert.deepStrictEqual(await heardOfShard, ['shard-news', 'hello']);
  await cluster.sunsubscribe('shard-news');
}

async function sums(cluster, keys) {
  const expected = Array.from({ length: keys }, (_, i) => `key:${i}`).sort();
  const sizes = await overNodes(cluster, (node) => node.dbsize());
  assert.strictEqual(sizes.reduce((sum, size) => sum + size), keys);
  assert.deepStrictEqual((await overNodes(cluster, (node) => node.keys('*'))).sort(), expected);
  const scanned = await overNodes(cluster, async (node) => {
    const found = [];
    for await (const some of node.scanStream({ count: 7 })) found.push(...some);
    return [...new Set(found)];
  });
  assert.deepStrictEqual(scanned.sort(), expected);
}

async function main() {
  const [port, addresses, keys] = process.argv.slice(2).map(Number);
  const cluster = new Redis.Cluster([{ host: '127.0.0.1', port }], { shardedSubscribers: true });
  await everyday(cluster);
  await channels(cluster);
  await sums(cluster, keys);
  assert.strictEqual(cluster.nodes('all').length, addresses);
  console.log('done');
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
