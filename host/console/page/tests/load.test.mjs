/** Many calls, many events, long records: bounded in memory and in what is rendered. Times are printed, not asserted. */
import assert from 'node:assert/strict';
import { eventually, firstPaint, withPage } from './browser.mjs';

async function heap(page) {
  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const { usedSize } = await session.send('Runtime.getHeapUsage');
  return usedSize / 1024 / 1024;
}

/** The number of calls that the page knows. */
const known = async (page) => Number((await page.getByRole('button', { name: /^All/ }).innerText()).replace(/\D/g, ''));

const elements = (page) => page.evaluate(() => document.querySelectorAll('*').length);

export const tests = {
  async 'the first paint is soon'(browser) {
    await withPage(browser, { hash: '#/live' }, async (page) => {
      for (let index = 0; index < 3; index++) await page.reload();
      await page.getByRole('treeitem').first().waitFor();
      const paint = await firstPaint(page);
      console.log(`      first paint after ${paint.toFixed(0)} ms`);
    });
  },

  async '1,000 events a second'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      const session = await page.context().newCDPSession(page);
      await session.send('Performance.enable');
      const busy = async () => Object.fromEntries((await session.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
      const before = await busy();
      await page.evaluate(() => {
        window.frames_ = [];
        const frame = (time) => {
          window.frames_.push(time);
          requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
      });
      fixture.flood(5_000, 1_000);
      await page.waitForTimeout(5_200);
      const frames = await page.evaluate(() => window.frames_);
      const gaps = frames.slice(1).map((time, index) => time - frames[index]);
      const after = await busy();
      const share = (after.TaskDuration - before.TaskDuration) / (after.Timestamp - before.Timestamp);
      console.log(`      ${frames.length} frames in 5 s, ${gaps.filter((gap) => gap > 34).length} longer than two, the longest ${Math.max(...gaps).toFixed(0)} ms; the main thread was busy ${(100 * share).toFixed(0)} %`);
      await eventually(async () => assert.ok((await known(page)) > 300));
    });
  },

  async '100,000 calls'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      const at = new Date().toISOString();
      for (let batch = 0; batch < 100; batch++) {
        const events = [];
        for (let index = 0; index < 1_000; index++) {
          const id = `many-${batch}-${index}`;
          events.push({ kind: 'started', id, at, process: { name: 'mimir', pid: 1 }, session: 's', tool: `tool_${index % 9}`, source: 'built-in', arguments: `{ "number": ${index} }` }, { kind: 'output', id, stream: 'stdout', text: 'x'.repeat(300) }, { kind: 'finished', id, at, ok: true, receipt: { durationMs: 1, bytesIn: 1, bytesOut: 1, tokens: 1 } });
        }
        fixture.publish(events);
        if (batch % 5 === 0) await page.waitForTimeout(30);
      }
      // All events have arrived.
      await page.getByText(/^98,0\d\d older calls not shown/).waitFor({ timeout: 180_000 });
      await eventually(async () => assert.match(await page.getByRole('button', { name: /^All/ }).innerText(), /2,000/));
      await page.getByRole('tree').press('End');
      await page.getByRole('treeitem', { selected: true }).waitFor();
      const megabytes = await heap(page);
      console.log(`      ${await elements(page)} elements, ${megabytes.toFixed(1)} MiB of memory after 100,000 calls`);
      assert.ok((await elements(page)) < 1_500);
      assert.ok(megabytes < 80);
    });
  },

  async 'a record of 100,000 lines'(browser) {
    await withPage(browser, { hash: '#/record' }, async (page) => {
      const list = page.getByRole('listbox', { name: 'Record, newest first' });
      await list.waitFor();
      for (let loaded = 200; loaded < 10_000; ) {
        await list.evaluate((element) => (element.scrollTop = element.scrollHeight));
        loaded = await eventually(async () => {
          const now = Number(/([\d,]+) lines? loaded/.exec(await page.getByText(/lines? loaded/).innerText())[1].replaceAll(',', ''));
          assert.ok(now > loaded);
          return now;
        }, 60_000);
      }
      await page.getByText('narrow the search').waitFor();
      assert.ok((await elements(page)) < 1_500);
      console.log(`      ${(await heap(page)).toFixed(1)} MiB of memory with 10,000 lines`);
      await page.getByRole('link', { name: /^continue before/ }).click();
      await page.getByText('Until', { exact: false }).first().waitFor();
    });
  },

  async 'rows stay where they are while new ones arrive'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      const tree = page.getByRole('tree');
      await page.getByRole('treeitem').first().waitFor();
      // All have ended: a call that ends moves below those that run.
      const at = new Date().toISOString();
      const ended = (id) => [
        { kind: 'started', id, at, process: { name: 'mimir', pid: 1 }, session: 's', tool: 'early', source: 'built-in', arguments: '{}' },
        { kind: 'finished', id, at, ok: true, receipt: { durationMs: 1 } },
      ];
      const old = await known(page);
      fixture.publish(Array.from({ length: 200 }, (_, index) => ended(`early-${index}`)).flat());
      await eventually(async () => assert.equal(await known(page), old + 200));
      await page.waitForTimeout(300);
      await tree.evaluate((element) => (element.scrollTop = 2_000));
      await page.waitForTimeout(100);
      const first = () => tree.evaluate((element) => {
        const top = element.getBoundingClientRect().top;
        return [...element.querySelectorAll('[role=treeitem]')].filter((row) => row.getBoundingClientRect().top >= top).sort((one, other) => one.getBoundingClientRect().top - other.getBoundingClientRect().top)[0].id;
      });
      // The rows of that place may not be rendered yet.
      const before = await eventually(first);
      for (let index = 0; index < 30; index++) fixture.publish([{ kind: 'started', id: `late-${index}`, at: new Date().toISOString(), process: { name: 'mimir', pid: 1 }, session: 's', tool: 'late', source: 'built-in', arguments: '{}' }]);
      await eventually(async () => assert.equal(await known(page), old + 230));
      await page.waitForTimeout(200);
      assert.equal(await first(), before);
    });
  },

  async 'the view can be paused while calls go on'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      await page.keyboard.press('p');
      await page.getByText('The view is paused.').waitFor();
      fixture.publish([{ kind: 'started', id: 'hidden', at: new Date().toISOString(), process: { name: 'mimir', pid: 1 }, session: 's', tool: 'appears_later', source: 'built-in', arguments: '{}' }]);
      await page.waitForTimeout(150);
      assert.equal(await page.getByText('appears_later').count(), 0);
      await page.keyboard.press('p');
      await page.getByText('appears_later').waitFor();
    });
  },
};
