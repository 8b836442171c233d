// A session of ioredis or node-redis, with the library's default settings, that goes on while the primary is replaced.
// Arguments: the library, the port. It ends when stdin does. On stdout it counts the messages that its subscriber has heard.
// node-redis rejects commands whose connection is lost; the session goes on with others.
const assert = require('node:assert');
const [library, port] = [process.argv[2], Number(process.argv[3])];
const node = library === 'redis';
const Library = require(library);

let over = false;
process.stdin.on('end', () => { over = true; }).resume();

function connect() {
  const client = node ? Library.createClient({ url: `redis://127.0.0.1:${port}` }) : new Library({ port });
  client.on('error', () => {});  // without a listener, node ends the process
  return client;
}

async function main() {
  const [client, subscriber] = [connect(), connect()];
  if (node) await Promise.all([client.connect(), subscriber.connect()]);
  let heard = 0;
  const channel = `news:${library}`;
  const hear = () => { heard += 1; console.log(heard); };
  if (node) await subscriber.subscribe(channel, hear);
  else { subscriber.on('message', hear); await subscriber.subscribe(channel); }

  for (let number = 0; !over; number += 1) {
    try {
      assert.strictEqual(await client.set(`last:${library}`, `${library}:${number}`), 'OK');
      const [tag, last] = (await client.get(`last:${library}`)).split(':');
      assert.strictEqual(tag, library);
      assert.ok(Number(last) <= number);
      const replies = await Promise.all(Array.from({ length: 20 }, (_, i) => client.echo(`${number}.${i}`)));
      assert.deepStrictEqual(replies, Array.from({ length: 20 }, (_, i) => `${number}.${i}`));
      await client.publish(channel, `${number}`);
    } catch (error) {
      if (error instanceof assert.AssertionError || !node) throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, 5); });
  }
  for (const each of [client, subscriber]) node ? each.destroy() : each.disconnect();
}

main().catch((error) => { console.error(error); process.exit(1); });
