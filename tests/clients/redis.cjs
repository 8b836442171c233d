// node-redis over its common paths: commands, automatic pipelining, transactions, scripts, blocking, pub/sub, RESP3, errors.
const assert = require('node:assert');
const { createClient, WatchError } = require('redis');

async function main() {
  const url = `redis://127.0.0.1:${process.argv[2]}`;
  for (const RESP of [2, 3]) {
    const client = createClient({ url, RESP, name: 'node' });
    client.on('error', (error) => { throw error; });
    await client.connect();
    assert.strictEqual(await client.set('k', 'v', { EX: 100 }), 'OK');
    assert.strictEqual(await client.get('k'), 'v');
    await client.del('h');
    await client.hSet('h', { f: '1', g: '2' });
    assert.deepStrictEqual({ ...(await client.hGetAll('h')) }, { f: '1', g: '2' });
    await client.zAdd('z', [{ score: 1.5, value: 'm' }]);
    assert.strictEqual(await client.zScore('z', 'm'), 1.5);

    const tokens = Array.from({ length: 500 }, (_, i) => `token-${i}`);
    await Promise.all(tokens.map((t) => client.set(t, t)));
    assert.deepStrictEqual(await Promise.all(tokens.map((t) => client.get(t))), tokens);

    assert.deepStrictEqual(await client.multi().set('t', 1).incr('t').exec(), ['OK', 2]);
    const other = client.duplicate();
    await other.connect();
    await client.watch('t');
    await other.set('t', 9);
    await assert.rejects(client.multi().incr('t').exec(), WatchError);

    assert.strictEqual(await client.eval('return KEYS[1]', { keys: ['a'] }), 'a');
    const blocked = client.duplicate();
    await blocked.connect();
    const popped = blocked.blPop('queue', 5);
    await other.rPush('queue', 'job');
    assert.deepStrictEqual({ ...(await popped) }, { key: 'queue', element: 'job' });

    const subscriber = client.duplicate();
    await subscriber.connect();
    const heard = new Promise((resolve) => subscriber.subscribe('news', (text) => resolve(text)).then(() => client.publish('news', 'hello')));
    assert.strictEqual(await heard, 'hello');
    await subscriber.unsubscribe('news');

    await assert.rejects(client.sendCommand(['NOSUCHCOMMAND']), /unknown command/);
    const large = 'x'.repeat(3_000_000);
    await client.set('large', large);
    assert.strictEqual(await client.get('large'), large);
    for (const each of [client, other, blocked, subscriber]) each.destroy ? each.destroy() : await each.disconnect();
  }
  console.log('done');
}

main().catch((error) => { console.error(error); process.exit(1); });
