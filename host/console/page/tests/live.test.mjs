/** Live calls: one agent is stopped, running calls stay in sight, and the list holds still under the pointer. */
import assert from 'node:assert/strict';
import { connected, eventually, withPage } from './browser.mjs';

const NONE = { questions: [] };

/** Starts a call that runs until it is stopped. */
function startCall(fixture, id, { client = 'codex', pid = 4101, tool = 'exec', at = Date.now() } = {}) {
  const session = `session-${client}-9`;
  fixture.publish([
    { kind: 'started', id, at: new Date(at).toISOString(), process: { name: 'mimir serve', pid }, session, client, tool, source: 'built-in', location: `built-in/${tool}`, arguments: `{ "command": "${id}" }` },
    { kind: 'decided', id, decision: 'allow', rule: 'exec: allow', reasons: [], state: 'running' },
  ]);
}

const rows = (page) => page.getByRole('treeitem');
const strip = (page) => page.getByRole('region', { name: 'Stopped agents' });

export const tests = {
  async 'a call that waits behind the question about another one says so'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: ['exec'] } }, async (page, fixture) => {
      const [question] = fixture.questions.values();
      const at = new Date().toISOString();
      const process = { name: 'mimir serve', pid: 4100 };
      fixture.publish(['behind', 'elsewhere'].flatMap((id) => [
        { kind: 'started', id, at, process, session: id === 'behind' ? question.session : 'other', tool: 'exec', source: 'built-in', arguments: '{}' },
        { kind: 'decided', id, decision: 'ask', reasons: [], state: 'waiting' },
      ]));
      await page.getByText('2 calls wait for an answer, and 1 behind another question').waitFor();
      await page.goto(page.url().replace(/#.*/, '#/live/behind'));
      await page.getByText('This call waits behind').waitFor();
      await page.getByRole('link', { name: 'another question' }).click();
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
    });
  },

  async 'what happens while the lists are loaded is not undone by them'(browser) {
    await withPage(browser, { hash: '#/live', fixture: { questions: ['edit'] } }, async (page, fixture, context) => {
      // Else requests of the first load may be held, too.
      await connected(page);
      const waiting = [];
      const isHeld = { agents: true };
      await context.route('**/api/agents', async (route) => {
        const response = await route.fetch();
        if (isHeld.agents) waiting.push(() => route.fulfill({ response }));
        else route.fulfill({ response });
      });
      await page.reload();
      await eventually(() => assert.equal(waiting.length, 1));
      // The lists are older than all of this.
      const [first] = fixture.questions.keys();
      fixture.end(first, 'once', 'bob');
      fixture.ask('exec');
      fixture.send('stop', { by: 'bob', atMs: Date.now(), reason: 'wait' });
      await page.waitForTimeout(200);
      waiting[0]();
      await connected(page);
      await page.getByText('Everything is stopped.').waitFor();
      await page.getByRole('link', { name: 'Questions 1 open' }).click();
      await page.getByRole('heading', { name: 'May exec run?' }).waitFor();
      // Of two loads, the older one does not count, even if its answer is the last.
      fixture.send('changed', { what: 'calls' });
      await eventually(() => assert.equal(waiting.length, 2));
      isHeld.agents = false;
      const [second] = fixture.questions.keys();
      fixture.questions.delete(second);
      fixture.send('changed', { what: 'questions' });
      await connected(page);
      await page.getByRole('link', { name: 'Questions', exact: true }).waitFor();
      waiting[1]();
      await page.waitForTimeout(300);
      assert.equal(await page.title(), 'mimir console – server');
    });
  },

  async 'stops one of three agents, and lets it work again'(browser) {
    await withPage(browser, { fixture: NONE }, async (page, fixture) => {
      for (const [client, pid] of [['claude-code', 4100], ['codex', 4101], ['zed', 4102]]) startCall(fixture, `run-${client}`, { client, pid });
      const wild = rows(page).filter({ hasText: 'run-codex' });
      await wild.getByRole('button', { name: 'Stop agent codex' }).click();
      const dialog = page.getByRole('dialog', { name: 'Stop this agent?' });
      await dialog.getByText('1 running call will end.').waitFor();
      await dialog.getByRole('textbox').fill('it deletes files');
      await dialog.getByRole('button', { name: 'Stop agent' }).click();
      await strip(page).getByText('it deletes files').waitFor();
      assert.deepEqual(fixture.posts.at(-1), { path: 'agents/stop', body: { pid: 4101, session: 'session-codex-9', reason: 'it deletes files' } });
      await rows(page).filter({ hasText: 'run-codex' }).getByText('stopped', { exact: true }).waitFor();
      for (const other of ['run-zed', 'run-claude-code']) await rows(page).filter({ hasText: other }).getByText('running').waitFor();
      // In a cluster whose other servers may not know the order.
      await page.route('**/api/agents', async (route) => {
        const { agents } = await (await route.fetch()).json();
        for (const { stop } of agents.filter(({ stop }) => stop)) stop.unshared = 'other servers may not know the order yet: <b>nats</b>';
        await route.fulfill({ json: { agents } });
      });
      await page.reload();
      await strip(page).getByText('other servers may not know the order yet: <b>nats</b>').waitFor();
      await strip(page).getByRole('button', { name: 'Let it work again' }).click();
      await strip(page).waitFor({ state: 'hidden' });
      assert.deepEqual(fixture.posts.at(-1), { path: 'agents/start', body: { pid: 4101, session: 'session-codex-9' } });
    });
  },

  async 'stops an agent with the keyboard'(browser) {
    await withPage(browser, { fixture: NONE }, async (page, fixture) => {
      startCall(fixture, 'run-1');
      await page.goto(`${fixture.url}#/live/run-1`);
      await page.getByRole('heading', { name: 'exec' }).waitFor();
      await page.keyboard.press('t');
      await page.getByRole('dialog').getByRole('textbox').waitFor();
      await page.keyboard.type('wild');
      await page.keyboard.press('Enter');
      await strip(page).getByText('wild').waitFor();
      // The order may be shown before the answer to the request closes the dialog.
      await page.getByRole('dialog').waitFor({ state: 'hidden' });
      // The agent is stopped already.
      await page.keyboard.press('t');
      assert.equal(await page.getByRole('dialog').count(), 0);
      assert.equal(fixture.posts.length, 1);
    });
  },

  async 'approvers stop one agent from the stop dialog, and read why other buttons are off'(browser) {
    await withPage(browser, { width: 360, fixture: { ...NONE, role: 'approver' } }, async (page, fixture) => {
      startCall(fixture, 'run-1');
      await rows(page).filter({ hasText: 'run-1' }).getByText('codex').waitFor();
      await rows(page).filter({ hasText: 'run-1' }).getByRole('button', { name: 'Stop agent codex' }).waitFor();
      await page.getByRole('button', { name: 'Stop…' }).click();
      await page.getByRole('dialog').getByText('needs the role admin; yours is approver').waitFor();
      await page.getByRole('dialog').getByRole('listitem').filter({ hasText: 'session-codex-9' }).getByRole('button', { name: 'Stop agent codex' }).click();
      await page.getByRole('dialog', { name: 'Stop this agent?' }).getByRole('button', { name: 'Stop agent' }).click();
      await strip(page).waitFor();
      assert.equal(fixture.posts.at(-1).path, 'agents/stop');
      await page.goto(`${fixture.url}#/policy/edit`);
      await page.getByText('Changing settings needs the role admin').waitFor();
      await page.goto(`${fixture.url}#/tools/undo/undo-1`);
      await page.getByText('Undoing a change needs the role admin').waitFor();
    });
  },

  async 'a decision says who has answered'(browser) {
    await withPage(browser, { fixture: { questions: ['edit'] } }, async (page, fixture) => {
      const [{ id, callId }] = [...fixture.questions.values()];
      await page.goto(`${fixture.url}#/live/${callId}`);
      await page.getByText('This call waits for an answer.').waitFor();
      fixture.end(id, 'once', 'bob');
      const detail = page.getByRole('region', { name: 'Call', exact: true });
      await detail.getByText('yes, once').waitFor();
      await detail.getByText('bob').waitFor();
      await page.reload();
      await detail.getByText('anna, after 4.2 s').waitFor();
    });
  },

  async 'viewers cannot stop agents'(browser) {
    await withPage(browser, { fixture: { ...NONE, role: 'viewer' } }, async (page, fixture) => {
      startCall(fixture, 'run-1');
      await page.goto(`${fixture.url}#/live/run-1`);
      await page.getByRole('heading', { name: 'exec' }).waitFor();
      await page.keyboard.press('t');
      assert.equal(await page.getByRole('button', { name: /^Stop agent/ }).count(), 0);
      assert.equal(await page.getByRole('dialog').count(), 0);
    });
  },

  async 'running calls stay on top of a flood'(browser) {
    await withPage(browser, { fixture: NONE }, async (page, fixture) => {
      startCall(fixture, 'the-first-one');
      await rows(page).first().waitFor();
      fixture.flood(20_000, 10_000);
      await page.waitForTimeout(2_600);
      await eventually(async () => assert.match(await rows(page).first().textContent(), /the-first-one/));
      const calls = await page.evaluate(async () => (await (await fetch('api/calls')).json()).calls);
      assert.ok(calls.length <= 2_000 && calls.some(({ id }) => id === 'the-first-one'));
    });
  },

  async 'the list holds still under the pointer'(browser) {
    await withPage(browser, { fixture: NONE }, async (page, fixture) => {
      const third = rows(page).nth(2);
      await third.waitFor();
      const before = await third.getAttribute('id');
      await third.hover();
      fixture.flood(600, 2_000);
      await page.getByText('The list holds still while the pointer is on it').waitFor();
      await page.waitForTimeout(500);
      assert.equal(await third.getAttribute('id'), before);
      const place = await third.boundingBox();
      await page.mouse.click(place.x + 200, place.y + place.height / 2);
      await eventually(() => assert.ok(page.url().endsWith(before.slice(before.indexOf('-') + 1)) || before.endsWith(page.url().split('/').at(-1))));
      await page.mouse.move(5, 5);
      await eventually(async () => assert.notEqual(await third.getAttribute('id'), before));
    });
  },

  async 'shows edited arguments, and for how long a call waits and runs'(browser) {
    await withPage(browser, { fixture: NONE }, async (page, fixture) => {
      startCall(fixture, 'run-1', { at: Date.now() - 3_600_000 });
      const since = new Date(Date.now() - 60_000).toISOString();
      fixture.publish([{ kind: 'decided', id: 'run-1', decision: 'ask', reasons: [], state: 'waiting', since, ranMs: 2_000 }]);
      await page.goto(`${fixture.url}#/live/run-1`);
      const detail = page.getByRole('region', { name: 'Call', exact: true });
      await detail.getByText(/^2(\.0)? s$/).waitFor();
      await detail.getByText(/^(1 min|6\d s)/).waitFor();
      fixture.publish([{ kind: 'edited', id: 'run-1', arguments: '{ "command": "ls" }' }]);
      await detail.getByText('A person has edited the arguments').waitFor();
      await detail.getByText('{ "command": "ls" }').waitFor();
      await detail.getByText('Arguments before the edit').click();
      await detail.getByText('{ "command": "run-1" }').waitFor();
    });
  },

  async 'sessions have their agents'(browser) {
    await withPage(browser, { hash: '#/tools/sessions', fixture: NONE }, async (page, fixture) => {
      fixture.publish([{ kind: 'started', id: 'x', at: new Date().toISOString(), process: { name: 'mimir serve', pid: 4100 }, session: 'session-claude-code-1', client: 'claude-code', tool: 'exec', arguments: '{}' }]);
      const row = page.getByRole('row').filter({ hasText: 'session-claude-code-1' });
      await row.getByText('1 running').waitFor();
      await row.getByRole('button', { name: /^Stop agent/ }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Stop agent' }).click();
      await row.getByText('stopped').waitFor();
      await row.getByRole('button', { name: 'Let it work again' }).click();
      await row.getByText('idle').waitFor();
    });
  },

  async 'an agent with short calls can be stopped'(browser) {
    await withPage(browser, { fixture: NONE }, async (page, fixture) => {
      const finish = (id, ago) => fixture.publish([{ kind: 'finished', id, at: new Date(Date.now() - ago).toISOString(), ok: true, receipt: { durationMs: 2, bytesIn: 1, bytesOut: 1, tokens: 1 } }]);
      for (const id of ['loop-1', 'loop-2', 'loop-3']) {
        startCall(fixture, id, { client: 'runaway' });
        finish(id, 0);
      }
      startCall(fixture, 'old-1', { client: 'long-gone', at: Date.now() - 900_000 });
      finish('old-1', 800_000);
      const agents = page.getByRole('list', { name: 'Agents of the last minutes' });
      const runaway = agents.getByRole('listitem').filter({ hasText: 'runaway' });
      await runaway.getByText('3 calls').waitFor();
      await rows(page).filter({ hasText: 'long-gone' }).waitFor();
      assert.equal(await agents.getByText('long-gone').count(), 0);
      await runaway.getByRole('button', { name: 'Stop agent runaway' }).click();
      const dialog = page.getByRole('dialog', { name: 'Stop this agent?' });
      await dialog.getByText('None of its calls runs now.').waitFor();
      await dialog.getByRole('button', { name: 'Stop agent' }).click();
      await strip(page).getByText('runaway', { exact: true }).waitFor();
      assert.deepEqual(fixture.posts.at(-1), { path: 'agents/stop', body: { pid: 4101, session: 'session-runaway-9' } });
      assert.equal(await runaway.count(), 0);
    });
  },
};
