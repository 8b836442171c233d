// What Keyrail's errors become in ioredis and node-redis: arguments are the library and the port.
const assert = require('node:assert');

async function caught(promise) {
  try { await promise; } catch (error) { return error; }
  throw new Error('nothing was refused');
}

async function main() {
  const [library, port] = [process.argv[2], Number(process.argv[3])];
  const node = library === 'redis';
  const Library = require(library);
  const client = node ? Library.createClient({ url: `redis://127.0.0.1:${port}` }) : new Library({ port });
  client.on('error', () => {});
  if (node) await client.connect();
  const named = node ? 'SimpleError' : 'ReplyError';

  const denied = await caught(client.keys('*'));
  assert.strictEqual(denied.constructor.name, named);
  assert.match(denied.message, /^DENIED keyrail\/walks: .*; use SCAN/);

  const aborted = await caught(client.multi().keys('*').get('a').exec());
  assert.strictEqual(aborted.constructor.name, named);
  assert.match(node ? aborted.message : aborted.previousErrors[0].message, /^DENIED keyrail\/walks: /);

  const refused = await caught(node ? client.sendCommand(['CLIENT', 'GETNAME']) : client.call('CLIENT', 'GETNAME'));
  assert.strictEqual(refused.constructor.name, named);
  assert.match(refused.message, /^NOPERM /);

  assert.strictEqual(await client.set('a:b', '1'), 'OK');
  await (node ? client.close() : client.quit());
  console.log('done');
}

main().catch((error) => { console.error(error); process.exit(1); });
