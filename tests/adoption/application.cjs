// One client of an application: sends the commands of a file, a hundred at a time, and prints the error of each, or null.
const { readFileSync } = require('node:fs');

const AT_ONCE = 100;

async function opened(library, port, name) {
  if (library === 'ioredis') {
    const Redis = require('ioredis');
    const client = new Redis({ port, connectionName: name });
    return { send: (words) => client.call(...words), close: () => client.quit() };
  }
  const { createClient } = require('redis');
  const client = createClient({ socket: { port }, name });
  await client.connect();
  return { send: (words) => client.sendCommand(words), close: () => client.quit() };
}

async function main() {
  const [library, port, name, file] = process.argv.slice(2);
  const commands = JSON.parse(readFileSync(file, 'utf8'));
  const client = await opened(library, Number(port), name);
  const errors = [];
  for (let first = 0; first < commands.length; first += AT_ONCE) {
    const sent = commands.slice(first, first + AT_ONCE).map((words) => client.send(words));
    for (const each of await Promise.allSettled(sent)) {
      errors.push(each.status === 'rejected' ? each.reason.message : null);
    }
  }
  await client.close();
  console.log(JSON.stringify(errors));
}

main();
