// ioredis over its common paths: commands, automatic and explicit pipelines, transactions, scripts, blocking, pub/sub, errors.
const assert = require('node:assert');
const Redis = require('ioredis');

async function main() {
  const port = Number(process.argv[2]);
  const client = new Redis({ port, connectionName: 'node', lazyConnect: true });
  await client.connect();
  assert.strictEqual(await client.set('k', 'v', 'EX', 100), 'OK');
  assert.strictEqual(await client.get('k'), 'v');
  await client.hset('h', { f: '1', g: '2' });
  assert.deepStrictEqual(await client.hgetall('h'), { f: '1', g: '2' });
  assert.deepStrictEqual(await client.getBuffer('k'), Buffer.from('v'));

  const tokens = Array.from({ length: 500 }, (_, i) => `token-${i}`);
  await Promise.all(tokens.map((t) => client.set(t, t)));
  assert.deepStrictEqual(await Promise.all(tokens.map((t) => client.get(t))), tokens);

  const piped = await client.pipeline().set('p', 1).incr('p').lpush('p', 'x').exec();
  assert.deepStrictEqual(piped.slice(0, 2), [[null, 'OK'], [null, 2]]);
  assert.match(piped[2][0].message, /WRONGTYPE/);

  assert.deepStrictEqual(await client.multi().set('t', 1).incr('t').exec(), [[null, 'OK'], [null, 2]]);
  await client.watch('t');
  const other = client.duplicate();
  await other.set('t', 9);
  assert.strictEqual(await client.multi().incr('t').exec(), null);

  client.defineCommand('both', { numberOfKeys: 1, lua: 'return {KEYS[1], ARGV[1]}' });
  assert.deepStrictEqual(await client.both('a', 'b'), ['a', 'b']);
  assert.deepStrictEqual(await client.both('a', 'c'), ['a', 'c']);

  const blocked = client.duplicate();
  const popped = blocked.blpop('queue', 5);
  await other.rpush('queue', 'job');
  assert.deepStrictEqual(await popped, ['queue', 'job']);

  const subscriber = client.duplicate();
  const heard = new Promise((resolve) => subscriber.on('message', (channel, text) => resolve([channel, text])));
  await subscriber.subscribe('news');
  assert.strictEqual(await client.publish('news', 'hello'), 1);
  assert.deepStrictEqual(await heard, ['news', 'hello']);
  await subscriber.unsubscribe();
  assert.strictEqual(await subscriber.get('k'), 'v');

  const found = [];
  for await (const keys of client.scanStream({ match: 'token-*', count: 100 })) found.push(...keys);
  assert.strictEqual(new Set(found).size, 500);
  await assert.rejects(client.call('NOSUCHCOMMAND'), /unknown command/);
  const large = 'x'.repeat(3_000_000);
  await client.set('large', large);
  assert.strictEqual(await client.get('large'), large);
  for (const each of [client, other, blocked, subscriber]) await each.quit();
  console.log('done');
}

main().catch((error) => { console.error(error); process.exit(1); });
