/** Speed with the real program. Times are printed, never asserted; numbers of elements and calls are. */
import assert from 'node:assert/strict';
import { eventually, firstPaint } from '../tests/browser.mjs';
import { Workspace } from './kit.mjs';
import { card, closePage, go, openPage, shot } from './pages.mjs';

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1);

/** Seconds of the flood. */
const FLOOD_SECONDS = 4;

export const stories = {
  async 'first paint'(browser) {
    const workspace = new Workspace('');
    try {
      const { url } = await workspace.console();
      const page = await openPage(browser, url);
      await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
      const paints = [];
      for (let run = 0; run < 5; run++) {
        await page.reload();
        await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
        paints.push(await firstPaint(page));
      }
      paints.sort((one, other) => one - other);
      console.log(`      first paint after ${at(paints, 0.5)} ms (the slowest of ${paints.length}: ${at(paints, 1)} ms)`);
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },

  async 'from the question to the page'(browser) {
    const workspace = new Workspace('approvals:\n  unattended: wait\ntools:\n  edit_file:\n    approval: ask\n');
    try {
      const [{ url }, agent] = await Promise.all([workspace.console(), workspace.agent()]);
      const page = await openPage(browser, url);
      await go(page, 'questions');
      await page.evaluate(() => {
        window.shown_ = new Map();
        new MutationObserver(() => {
          const id = document.querySelector('article.card')?.getAttribute('aria-labelledby')?.replace('title-', '');
          if (id && !window.shown_.has(id)) window.shown_.set(id, performance.timeOrigin + performance.now());
        }).observe(document.body, { childList: true, subtree: true, attributes: true });
      });
      const delays = [];
      for (let number = 0; number < 20; number++) {
        workspace.write('notes.txt', `one ${number}\n`);
        const reply = agent.call('edit_file', { path: 'notes.txt', pattern: 'one', replacement: `${number}` });
        await page.getByRole('article').getByRole('heading', { name: 'What will change' }).waitFor();
        const [{ id, askedAt, card: { fingerprint }, preview: { digest } }] = (await page.evaluate(() => fetch('api/questions').then((answer) => answer.json()))).questions;
        const shown = await page.evaluate((id) => window.shown_.get(id), id);
        delays.push(shown - millis(askedAt));
        const counted = await page.evaluate(
          ([id, fingerprint, preview]) => fetch(`api/questions/${id}/answer`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Mimir-Console': '1' }, body: JSON.stringify({ fingerprint, preview, answer: 'once' }) }).then((answer) => answer.status),
          [id, fingerprint, digest],
        );
        assert.equal(counted, 200);
        assert.equal((await reply).isError ?? false, false);
        const back = page.getByRole('button', { name: 'Back to the list' });
        await back.or(page.getByRole('heading', { name: 'No open questions' })).first().waitFor();
        if (await back.isVisible()) await back.click();
      }
      delays.sort((one, other) => one - other);
      console.log(`      a question is on the page after p50 ${at(delays, 0.5)} ms, p95 ${at(delays, 0.95)} ms`);
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },

  async 'many events'(browser) {
    const workspace = new Workspace('tools:\n  exec:\n    approval: allow\n');
    try {
      workspace.write('notes.txt', 'alpha\n');
      const [{ url }, agent] = await Promise.all([workspace.console(), workspace.agent()]);
      const page = await openPage(browser, url);
      await page.getByRole('status').filter({ hasText: 'Connected' }).waitFor();
      await agent.call('read_file', { path: 'notes.txt' });
      await page.getByRole('treeitem').first().waitFor();
      await page.evaluate(() => {
        window.frames_ = [];
        const frame = (time) => {
          window.frames_.push(time);
          requestAnimationFrame(frame);
        };
        requestAnimationFrame(frame);
        window.source_ = new EventSource('api/events');
        window.events_ = 0;
        window.source_.addEventListener('call', ({ data }) => (window.events_ += JSON.parse(data).length));
      });
      const end = Date.now() + FLOOD_SECONDS * 1_000;
      let calls = 0;
      const loops = Array.from({ length: 8 }, async () => {
        while (Date.now() < end) {
          await agent.call('read_file', { path: 'notes.txt' });
          calls++;
        }
      });
      assert.equal((await agent.call('exec', { command: 'seq 1 20000' })).isError ?? false, false);
      await Promise.all(loops);
      // The console hears of the calls some time after their agent.
      const load = () => page.evaluate(() => fetch('api/calls').then((answer) => answer.json()));
      let snapshot;
      // On a busy machine, reports of the output may be dropped, too, which are counted with the calls.
      await eventually(async () => {
        snapshot = await load();
        assert.ok(snapshot.calls.length + snapshot.dropped >= calls + 2, `${snapshot.calls.length} calls, and ${snapshot.dropped} dropped`);
      });
      await page.waitForTimeout(500);
      const [frames, events] = await page.evaluate(() => [window.frames_, window.events_]);
      const gaps = frames.slice(1).map((time, index) => time - frames[index]);
      console.log(`      ${events} events of ${calls} calls in ${FLOOD_SECONDS} s; ${frames.length} frames, ${gaps.filter((gap) => gap > 34).length} longer than two, the longest ${Math.max(...gaps).toFixed(0)} ms`);
      const elements = await page.evaluate(() => document.querySelectorAll('*').length);
      console.log(`      ${elements} elements; the server keeps ${snapshot.calls.length} calls, has dropped ${snapshot.dropped}`);
      assert.ok(elements < 1_500, `${elements} elements`);
      assert.ok(snapshot.calls.length <= 2_000, `${snapshot.calls.length} calls`);
      await page.getByRole('treeitem').filter({ hasText: 'exec' }).or(page.getByRole('treeitem').first()).first().click();
      await shot(page, 'story-flood');
      await closePage(page);
    } finally {
      await workspace.close();
    }
  },
};

/** Milliseconds since 1970 of RFC 3339 text with nanoseconds. */
function millis(text) {
  const [, whole, fraction = '0'] = /^(.*?)(?:\.(\d+))?Z$/.exec(text);
  return Date.parse(`${whole}Z`) + Number(`0.${fraction}`) * 1_000;
}
