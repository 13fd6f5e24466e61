/** Text of strangers stays text, in its frame, and a large one does not stop the page. */
import assert from 'node:assert/strict';
import { HOSTILE, long } from '../fixture/hostile.mjs';
import { withPage } from './browser.mjs';

/** Characters that must not reach the page as they are. */
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e007f}]/u;

async function checkPage(page) {
  const { title, elements, text, attributes } = await page.evaluate(() => ({
    title: document.title,
    elements: [...document.querySelectorAll('#app img, #app script, #app iframe, #app b, #app object')].length,
    text: document.body.innerText,
    attributes: [...document.querySelectorAll('#app *')].flatMap((element) => [...element.attributes]).filter(({ name, value }) => name.startsWith('on') || /^javascript:/i.test(value)).map(({ name, value }) => `${name}=${value}`),
  }));
  assert.doesNotMatch(title, /owned/);
  assert.equal(elements, 0);
  assert.deepEqual(attributes, []);
  assert.equal(INVISIBLE.exec(text)?.[0], undefined);
}

const hostileCall = (id) => ({
  kind: 'started', id, at: new Date().toISOString(), process: { name: HOSTILE.markup, pid: HOSTILE.bidi }, session: HOSTILE.zeroWidth, user: HOSTILE.ansi, client: HOSTILE.imitation,
  tool: HOSTILE.markup, source: HOSTILE.attribute, location: HOSTILE.link, parent: HOSTILE.prototype, arguments: Object.values(HOSTILE).join('\n'), argumentsTruncated: true,
});

export const tests = {
  async 'a question full of hostile text'(browser) {
    for (const width of [1280, 360]) {
      await withPage(browser, { width, hash: '#/questions', fixture: { questions: ['hostile'] } }, async (page) => {
        await page.getByRole('article').waitFor();
        await page.waitForTimeout(600);
        await checkPage(page);
        // The imitation is in a frame, and mimir's own words are not.
        const outside = await page.evaluate((imitation) => {
          const walker = document.createTreeWalker(document.getElementById('app'), NodeFilter.SHOW_TEXT);
          const found = [];
          for (let node = walker.nextNode(); node; node = walker.nextNode()) if (node.data.includes(imitation) && !node.parentElement.closest('.name, .foreign, .inline-foreign')) found.push(node.parentElement.outerHTML.slice(0, 200));
          return found;
        }, HOSTILE.imitation.slice(0, 30));
        assert.deepEqual(outside, []);
        assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width);
        await page.getByRole('button', { name: 'No…' }).click();
        await checkPage(page);
      });
    }
  },

  async 'hostile calls, effects, output and results'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      const id = 'call"><img src=x onerror=alert(1)>/../?#';
      const text = Object.values(HOSTILE).join('\n');
      await page.getByRole('treeitem').first().waitFor();
      fixture.publish([
        hostileCall(id),
        { ...hostileCall('self'), parent: 'self' },
        { ...hostileCall('loop-a'), parent: 'loop-b' },
        { ...hostileCall('loop-b'), parent: 'loop-a' },
        { kind: 'decided', id, decision: HOSTILE.markup, rule: HOSTILE.markup, reasons: [{ layer: 'constructor', decision: '__proto__', rule: HOSTILE.bidi, source: HOSTILE.markup, text: HOSTILE.imitation }], state: '<b>' },
        { kind: 'effect', id, at: 'no time', effect: 'toString', subject: HOSTILE.bidi, decision: 'deny' },
        { kind: 'progress', id, done: 'x', total: {}, message: HOSTILE.markup },
        { kind: 'output', id, stream: 'constructor', text },
        { kind: 'output', id, stream: 'stdout', text: null },
        { kind: 'unknown', id },
        { kind: 'finished', id: 'self', ok: false, code: HOSTILE.markup, message: text, receipt: null, label: { trust: HOSTILE.markup, dataClass: null, origin: HOSTILE.bidi } },
      ]);
      const row = page.getByRole('treeitem').filter({ hasText: '<img src=x' }).first();
      await row.click();
      await page.getByRole('region', { name: 'Call', exact: true }).waitFor();
      await page.waitForTimeout(300);
      await checkPage(page);
      await page.keyboard.press('j');
      await page.waitForTimeout(100);
      await checkPage(page);
    });
  },

  async 'hostile lists of tools, servers and notes'(browser) {
    for (const hash of ['#/tools', '#/tools/servers', '#/tools/memory', `#/tools/list/${encodeURIComponent(HOSTILE.markup)}`, '#/record?text=imitation', '#/%3Cimg%20src=x%3E', '#/live/%E0%A4%A', '#/record/call/..%2F..%2Fx']) {
      await withPage(browser, { hash, expectErrors: true }, async (page) => {
        await page.waitForTimeout(500);
        await checkPage(page);
      });
    }
  },

  async '10 MB of arguments and a diff of 30,000 lines'(browser) {
    await withPage(browser, { hash: '#/questions', fixture: { questions: ['huge'] } }, async (page) => {
      await page.getByRole('article').waitFor();
      const count = () => page.evaluate(() => document.querySelectorAll('*').length);
      assert.ok((await count()) < 1_500, `${await count()} elements`);
      await page.getByRole('button', { name: /^Show all 30/ }).click();
      await page.getByRole('button', { name: /^Show all \(/ }).click();
      const view = page.getByRole('group', { name: 'Exact arguments', exact: true });
      await view.waitFor();
      await view.evaluate((element) => (element.scrollTop = element.scrollHeight));
      await page.getByText('0123456789').last().waitFor();
      assert.ok((await count()) < 2_000, `${await count()} elements`);
      const busy = await page.evaluate(async () => {
        const start = performance.now();
        await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
        return performance.now() - start;
      });
      console.log(`      a frame with 10 MB shown: ${busy.toFixed(0)} ms`);
    });
  },

  async 'output without end'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: [] } }, async (page, fixture) => {
      await page.getByRole('treeitem').first().waitFor();
      fixture.publish([{ ...hostileCall('noisy'), tool: 'noisy' }]);
      await page.getByRole('treeitem').filter({ hasText: 'noisy' }).click();
      for (let index = 0; index < 300; index++) fixture.publish([{ kind: 'output', id: 'noisy', stream: index % 7 ? 'stdout' : 'stderr', text: `${index} ${long(3_900)}\n` }]);
      const log = page.getByRole('log', { name: 'Output' });
      await log.getByText(/^299 /).waitFor();
      const length = await log.evaluate((element) => element.textContent.length);
      assert.ok(length <= 66_000, `${length} characters are kept`);
    });
  },
};
