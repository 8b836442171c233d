// node-redis's cluster over its common paths. Arguments: a port, the number of advertised addresses, the number of keys `key:…`.
const assert = require('node:assert');
const { createCluster } = require('redis');

async function overNodes(cluster, ask) {
  return (await Promise.all(cluster.masters.map(async (node) => ask(await cluster.nodeClient(node))))).flat();
}

async function everyday(cluster) {
  assert.strictEqual(await cluster.set('k', 'v', { EX: 100 }), 'OK');
  assert.strictEqual(await cluster.get('k'), 'v');
  await cluster.hSet('h', { f: '1', g: '2' });
  assert.deepStrictEqual({ ...(await cluster.hGetAll('h')) }, { f: '1', g: '2' });
  const tokens = Array.from({ length: 300 }, (_, i) => `token-${i}`);
  await Promise.all(tokens.map((t) => cluster.set(t, t)));
  assert.deepStrictEqual(await Promise.all(tokens.map((t) => cluster.get(t))), tokens);
  assert.deepStrictEqual(await cluster.mGet(['{m}a', '{m}b']), [null, null]);
  assert.deepStrictEqual(await cluster.multi().set('{t}a', 1).incr('{t}a').get('{t}b').exec(), ['OK', 2, null]);
  for (const key of ['a', 'b', 'c']) assert.strictEqual(await cluster.eval('return KEYS[1]', { keys: [key] }), key);
  const blocked = await cluster.duplicate().connect();
  const popped = blocked.blPop('queue', 20);
  await cluster.rPush('queue', 'job');
  assert.deepStrictEqual({ ...(await popped) }, { key: 'queue', element: 'job' });
  await assert.rejects(cluster.sendCommand('k', false, ['NOSUCHCOMMAND', 'k']), /unknown command/);
  await cluster.set('large', 'x'.repeat(2_000_000));
  assert.strictEqual((await cluster.get('large')).length, 2_000_000);
  for (const key of [...tokens, 'k', 'h', '{t}a', 'large']) assert.strictEqual(await cluster.del(key), 1);
}

async function channels(cluster) {
  const heard = new Promise((resolve) => {
    cluster.subscribe('news', (text) => resolve(text)).then(() => cluster.publish('news', 'hello'));
  });
  assert.strictEqual(await heard, 'hello');
  const nodes = await Promise.all([...cluster.masters, ...cluster.replicas].map((node) => cluster.nodeClient(node)));
  const counts = await Promise.all(nodes.map((node) => node.pubSubNumSub(['news'])));
  assert.strictEqual(counts.reduce((sum, { news }) => sum + news, 0), 1);
  await cluster.unsubscribe('news');
  const heardOfShard = new Promise((resolve) => {
    cluster.sSubscribe('shard-news', (text) => resolve(text)).then(() => cluster.sPublish('shard-news', 'hello'));
  });
  assert.strictEqual(await heardOfShard, 'hello');
  await cluster.sUnsubscribe('shard-news');
}

async function sums(cluster, keys) {
  const expected = Array.from({ length: keys }, (_, i) => `key:${i}`).sort();
  const sizes = await overNodes(cluster, (node) => node.dbSize());
  assert.strictEqual(sizes.reduce((sum, size) => sum + size), keys);
  assert.deepStrictEqual((await overNodes(cluster, (node) => node.keys('*'))).sort(), expected);
  const scanned = await overNodes(cluster, async (node) => {
    const found = [];
    for await (const some of node.scanIterator({ COUNT: 7 })) found.push(...some);
    return [...new Set(found)];
  });
  assert.deepStrictEqual(scanned.sort(), expected);
}

async function main() {
  const [port, addresses, keys] = process.argv.slice(2).map(Number);
  for (const RESP of [2, 3]) {
    const cluster = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], useReplicas: true, RESP });
    cluster.on('error', (error) => { throw error; });
    await cluster.connect();
    await everyday(cluster);
    await channels(cluster);
    await sums(cluster, keys);
    assert.strictEqual(cluster.masters.length + cluster.replicas.length, addresses);
    cluster.destroy();
  }
  console.log('done');
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
