// One Node library in a process of its own, with the orders and answers of run.py: node run.cjs NAME
const readline = require('node:readline');

async function main() {
  let session;
  try {
    session = require(`./sessions/${process.argv[2]}.cjs`);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    console.log(`missing ${error.message.split('\n')[0]}`);
    return;
  }
  const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log('ready');
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    const [order, url] = line.value.split(' ');
    try {
      if (order === 'work') {
        await session.work?.(url);
      } else {
        for await (const _ of session.use(url)) {
          console.log('restart');
          if ((await lines.next()).value !== 'go') throw new Error('no go');
          // A connection that has been closed by now must have been seen to be, as in any application that is not this quick.
          await new Promise((resolve) => { setTimeout(resolve, 20); });
        }
      }
      console.log('done');
    } catch (error) {
      console.error(error);
      const texts = [error, ...(error.previousErrors ?? [])].map((each) => `${each.name}: ${each.message}`);
      console.log(`failed ${JSON.stringify(texts.join(' <- '))}`);
    }
  }
  process.exit(0);
}

process.on('unhandledRejection', (error) => console.error('unhandled', error));
main();
