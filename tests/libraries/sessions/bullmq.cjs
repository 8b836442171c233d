// BullMQ: jobs now, later, failing and retried, with priorities, in flows, repeated; a worker and its events.
const assert = require('node:assert');
const { FlowProducer, Queue, QueueEvents, Worker } = require('bullmq');

const options = (url) => ({ connection: { url } });

async function round({ queue, flows, events }, number) {
  const add = async (name, data, more) => (await queue.add(name, data, more)).waitUntilFinished(events, 20000);
  assert.strictEqual(await add('add', { first: 1, second: number }), 1 + number);
  assert.strictEqual(await add('add', { first: 2, second: number }, { delay: 10 }), 2 + number);
  assert.strictEqual(await add('add', { first: 3, second: number }, { priority: 5 }), 3 + number);
  assert.strictEqual(await add('fail', { key: number }, { attempts: 2 }), number);
  const jobs = await queue.addBulk([1, 2, 3].map((first) => ({ name: 'add', data: { first, second: 1 } })));
  assert.deepStrictEqual(await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20000))), [2, 3, 4]);
  const children = [{ name: 'add', queueName: 'mail', data: { first: 1, second: 1 } }];
  const flow = await flows.add({ name: 'add', queueName: 'mail', data: { first: 5, second: 5 }, children });
  assert.strictEqual(await flow.job.waitUntilFinished(events, 20000), 10);
  await queue.upsertJobScheduler('nightly', { every: 3600000, startDate: Date.now() + 3600000 }, { name: 'add' });
  assert.strictEqual((await queue.getJobSchedulers()).length, 1);
  assert.strictEqual(await queue.removeJobScheduler('nightly'), true);
  await queue.pause();
  assert.strictEqual(await queue.isPaused(), true);
  await queue.resume();
  assert.strictEqual((await queue.getJobCounts('failed')).failed, 0);
}

exports.use = async function* use(url) {
  const runs = [];
  const run = async (job) => {
    if (job.name !== 'fail') return job.data.first + job.data.second;
    runs.push(job.data.key);
    if (runs.filter((key) => key === job.data.key).length === 1) throw new Error('the first time');
    return job.data.key;
  };
  const queue = new Queue('mail', options(url));
  const all = { queue };
  queue.on('error', () => {});
  try {
    await queue.waitUntilReady();
    await queue.add('add', { first: 0, second: 0 }, { removeOnComplete: true });
    all.worker = new Worker('mail', run, { ...options(url), drainDelay: 1 });
    all.flows = new FlowProducer(options(url));
    all.events = new QueueEvents('mail', { ...options(url), lastEventId: '0' });
    for (const each of Object.values(all)) each.on('error', () => {});
    await all.events.waitUntilReady();
    await round(all, 1);
    yield;
    await round(all, 2);
  } finally {
    await Promise.all(Object.values(all).map((each) => each.close(true)));
  }
};

exports.work = async function work(url) {
  const worker = new Worker('mail', async () => {}, { ...options(url), autorun: false });
  worker.on('error', () => {});
  try {
    await worker.waitUntilReady();
    await worker.getNextJob('token', { block: false });
  } finally {
    await worker.close(true);
  }
};
