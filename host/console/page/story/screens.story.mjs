/** All screens on the record, tools and rules of a real workspace: by role and name, and with axe-core. */
import assert from 'node:assert/strict';
import { violations } from '../tests/axe.mjs';
import { eventually } from '../tests/browser.mjs';
import { Workspace, openWeb } from './kit.mjs';
import { card, closePage, go, openPage, shot } from './pages.mjs';

/** Screens with what a screen reader must find there, as lines of an ARIA snapshot. */
const SCREENS = [
  ['live', 'live', [/treeitem .*edit_file/, /treeitem .*web_fetch/, /searchbox "Filter calls"/]],
  ['questions', 'questions', [/heading "1 open question"/, /article "May edit_file run\?/, /group "Answer"/, /button "Yes, once"/, /button "No…"/, /text of strangers/]],
  ['record', 'record', [/tab "Timeline" \[selected\]/, /listbox "Record, newest first"/, /option ".*(exec|read_file)/, /link "Export"/]],
  ['record-charts', 'record/charts', [/tab "Charts" \[selected\]/, /read_file/]],
  ['record-what-if', 'record/what-if?tool=exec', [/tab "What if" \[selected\]/, /button "Evaluate"/]],
  ['tools', 'tools', [/edit_file/, /switch "edit_file is on"/]],
  ['tool', 'tools/list/edit_file', [/region "Tool"/, /edit_file/]],
  ['servers', 'tools/servers', [/region "Server notes"|Server notes/]],
  ['sessions', 'tools/sessions', [/story-agent|session/i]],
  ['undo', 'tools/undo', [/edit_file/]],
  ['workers', 'tools/workers', [/./]],
  ['memory', 'tools/memory', [/./]],
  ['packages', 'tools/packages', [/./]],
  ['policy', 'policy', [/tab ".*" \[selected\]/, /edit_file/]],
  ['policy-explain', 'policy/explain?tool=exec', [/./]],
  ['policy-edit', 'policy/edit', [/./]],
  ['policy-least', 'policy/least', [/./]],
];

export const stories = {
  async 'every screen has its roles and names, and axe-core finds nothing'(browser) {
    const web = await openWeb();
    const workspace = new Workspace(
      `approvals:\n  unattended: wait\nnetwork:\n  allowedHosts: ["${web.url}"]\ntools:\n  edit_file:\n    approval: ask\n  exec:\n    approval: allow\n  delete_file:\n    approval: deny\nmcp:\n  servers:\n    notes:\n      command: node\n      args: ["-e", "process.exit(1)"]\n`,
    );
    try {
      workspace.write('src/main.rs', 'fn main() {\n    println!("hello");\n}\n');
      workspace.write('README.md', '# Project\n');
      const [{ url }, agent] = await Promise.all([workspace.console(), workspace.agent()]);
      const page = await openPage(browser, url);
      for (let number = 0; number < 5; number++) await agent.call('read_file', { path: 'src/main.rs' });
      await agent.call('read_file', { path: 'missing.txt' });
      await agent.call('exec', { command: 'ls -la && git status' });
      await agent.call('delete_file', { path: 'README.md' });
      await agent.call('write_file', { path: 'src/lib.rs', content: 'pub fn twice(x: i32) -> i32 { 2 * x }\n' });
      await agent.call('memory_save', { key: 'build', content: 'run cargo test' }).catch(() => {});
      await agent.call('web_fetch', { url: `${web.url}/docs` });
      const first = agent.call('edit_file', { path: 'src/main.rs', pattern: 'hello', replacement: 'hello, world' });
      await go(page, 'questions');
      await (await card(page, 'edit_file')).getByRole('button', { name: 'Yes, once' }).click();
      await first;
      await page.getByRole('heading', { name: 'No open questions' }).or(page.getByText(/^Answered/)).first().waitFor();
      agent.call('edit_file', { path: 'src/main.rs', pattern: 'hello, world', replacement: 'good evening' }).catch(() => {});
      await page.getByRole('article').waitFor();

      const faults = [];
      for (const { width, theme } of [{ width: 1280, theme: 'light' }, { width: 360, theme: 'dark' }]) {
        await page.setViewportSize({ width, height: width > 500 ? 800 : 740 });
        await page.emulateMedia({ colorScheme: theme });
        for (const [name, hash, expected] of SCREENS) {
          await go(page, hash);
          // The list of calls holds still while the pointer is on it.
          await page.mouse.move(0, 0);
          await page.waitForTimeout(200);
          await page.getByText(/^Loading/).first().waitFor({ state: 'hidden' }).catch(() => faults.push(`${name} at ${width} px: still loads`));
          await page.waitForTimeout(150);
          await shot(page, `screen-${name}-${width}`);
          let snapshot = '';
          // Narrow screens leave out the list beside a card.
          const missing = () => (width > 500 ? expected.filter((pattern) => !pattern.test(snapshot)) : []);
          await eventually(async () => {
            snapshot = await page.locator('main').ariaSnapshot();
            assert.deepEqual(missing(), []);
          }, 10_000).catch(() => {});
          for (const pattern of missing()) faults.push(`${name}: no ${pattern} in\n${snapshot.slice(0, 2_000)}`);
          const alerts = await page.getByRole('alert').allInnerTexts();
          if (alerts.length) faults.push(`${name} at ${width} px: ${alerts.join(' ')}`);
          const wide = await page.evaluate(() => document.documentElement.scrollWidth);
          if (wide > width) faults.push(`${name}: ${wide} px wide at ${width} px`);
          for (const { id, nodes } of await violations(page)) faults.push(`${name} at ${width} px: ${id}\n    ${nodes.join('\n    ')}`);
        }
      }
      assert.deepEqual(faults, [], faults.join('\n'));
      await closePage(page);
    } finally {
      web.stop();
      await workspace.close();
    }
  },
};
