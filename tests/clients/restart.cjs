// A job queue's pattern: a script that is loaded once for each socket, and run inside MULTI. It works again after Redis has restarted.
// Says `loaded` when the script is known, and waits for a line on stdin, which says that Redis is back.
const assert = require('node:assert');
const { once } = require('node:events');
const Redis = require('ioredis');

async function main() {
  const client = new Redis({ port: Number(process.argv[2]) });
  client.on('error', () => {});
  client.defineCommand('both', { numberOfKeys: 1, lua: 'return {KEYS[1], ARGV[1]}' });
  const run = () => client.multi().both('a', 'b').set('k', 'v').exec();
  assert.deepStrictEqual(await client.both('a', 'b'), ['a', 'b']);
  assert.deepStrictEqual(await run(), [[null, ['a', 'b']], [null, 'OK']]);
  console.log('loaded');
  await once(process.stdin, 'data');
  await client.ping();
  assert.deepStrictEqual(await run(), [[null, ['a', 'b']], [null, 'OK']]);
  await client.quit();
  console.log('done');
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
