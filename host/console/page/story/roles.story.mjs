/** A server with the logins of an identity provider: what people may see and do by their roles. */
import assert from 'node:assert/strict';
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { createServer } from 'node:http';
import { eventually } from '../tests/browser.mjs';
import { Workspace } from './kit.mjs';
import { card, closePage, go, openPage, shot } from './pages.mjs';

/** An identity provider that logs in whoever `person` names, without a form. */
async function openProvider() {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const codes = new Map();
  const provider = { person: null, logins: 0 };
  const part = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = (claims) => {
    const now = Math.floor(Date.now() / 1_000);
    const text = `${part({ alg: 'ES256', typ: 'at+jwt', kid: 'k' })}.${part({ iss: provider.url, iat: now, exp: now + 600, ...claims })}`;
    return `${text}.${sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  };
  provider.token = token;
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', () => {
      const { pathname, searchParams } = new URL(request.url, provider.url);
      const json = (value, status = 200) => response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
      if (pathname === '/keys') return json({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k', use: 'sig', alg: 'ES256' }] });
      if (pathname.startsWith('/.well-known/')) {
        return json({
          issuer: provider.url, jwks_uri: `${provider.url}/keys`, authorization_endpoint: `${provider.url}/authorize`, token_endpoint: `${provider.url}/token`,
          response_types_supported: ['code'], subject_types_supported: ['public'], id_token_signing_alg_values_supported: ['ES256'], code_challenge_methods_supported: ['S256'],
          authorization_response_iss_parameter_supported: true,
        });
      }
      if (pathname === '/authorize') {
        const code = randomUUID();
        codes.set(code, { ...provider.person, challenge: searchParams.get('code_challenge'), resource: searchParams.get('resource'), nonce: searchParams.get('nonce'), client: searchParams.get('client_id') });
        provider.logins++;
        const back = new URL(searchParams.get('redirect_uri'));
        for (const [key, value] of [['code', code], ['state', searchParams.get('state')], ['iss', provider.url]]) back.searchParams.set(key, value);
        return response.writeHead(302, { location: back.href }).end();
      }
      if (pathname === '/token') {
        const form = new URLSearchParams(body);
        const { challenge, resource, nonce, client, ...claims } = codes.get(form.get('code')) ?? {};
        codes.delete(form.get('code'));
        if (!challenge || createHash('sha256').update(form.get('code_verifier')).digest('base64url') !== challenge) return json({ error: 'invalid_grant' }, 400);
        return json({ access_token: token({ aud: resource ?? form.get('resource'), ...claims }), token_type: 'Bearer', expires_in: 600, id_token: token({ aud: client, nonce, ...claims }) });
      }
      json({}, 404);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  provider.url = `http://127.0.0.1:${server.address().port}`;
  provider.stop = () => server.close() || server.closeAllConnections();
  return provider;
}

/** A free port below those that the system gives to connections, one of which could take it before the server does. */
async function freePort() {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const server = createServer();
    const isFree = await new Promise((resolve) => server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true)));
    await new Promise((resolve) => server.close(resolve));
    if (isFree) return port;
  }
}

/** An agent over HTTP with the token of a person. */
function httpAgent(url, token) {
  let session;
  let next = 1;
  const send = async (method, params, isNotice) => {
    const answer = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', Authorization: `Bearer ${token}`, 'MCP-Protocol-Version': '2025-06-18', ...(session && { 'Mcp-Session-Id': session }) },
      body: JSON.stringify({ jsonrpc: '2.0', method, params, ...(!isNotice && { id: next++ }) }),
    });
    session ??= answer.headers.get('mcp-session-id');
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${answer.status} ${text}`);
    const data = text.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trim()).filter(Boolean).at(-1) ?? text;
    return data && JSON.parse(data).result;
  };
  return {
    async initialize() {
      await send('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'remote-agent', version: '1' } });
      await send('notifications/initialized', {}, true);
    },
    call: (name, args) => send('tools/call', { name, arguments: args }),
  };
}

export const stories = {
  async 'viewers look, approvers answer, admins stop; nobody else sees anything'(browser) {
    const provider = await openProvider();
    const workspace = new Workspace('approvals:\n  unattended: wait\ntools:\n  edit_file:\n    approval: ask\nconsole:\n  clientId: console\n  roles:\n    viewer: ["group:engineering"]\n    approver: ["group:oncall"]\n    admin: ["subject:root-1"]\n');
    try {
      workspace.write('notes.txt', 'one\n');
      const port = await freePort();
      const origin = `http://127.0.0.1:${port}`;
      const server = workspace.spawn(['serve', '--http', String(port), '--console', '--issuer', provider.url, '--resource', `${origin}/mcp`], 'ignore');
      await eventually(() => assert.match(server.errors, /the console is at/), 60_000);
      const agent = httpAgent(`${origin}/mcp`, provider.token({ sub: 'dev-1', aud: `${origin}/mcp`, groups: ['engineering'] }));
      await agent.initialize();

      const enter = async (sub, groups) => {
        provider.person = { sub, groups };
        const page = await openPage(browser, `${origin}/console/`, { expectErrors: true });
        await page.getByRole('link', { name: 'Log in' }).click();
        return page;
      };
      const reply = agent.call('edit_file', { path: 'notes.txt', pattern: 'one', replacement: '1' });
      const viewer = await enter('dev-1', ['engineering']);
      await viewer.getByRole('link', { name: 'Questions 1 open' }).click();
      await viewer.getByText('Your role can see questions, but not answer them.').waitFor();
      await shot(viewer, 'story-viewer');
      const [{ id, card: { fingerprint } }] = (await viewer.evaluate(() => fetch('api/questions').then((answer) => answer.json()))).questions;
      const tried = await viewer.evaluate(
        async ([id, fingerprint]) => {
          const post = (path, body) => fetch(`api/${path}`, { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Mimir-Console': '1' }, body: JSON.stringify(body) }).then((answer) => answer.status);
          return [await post(`questions/${id}/answer`, { fingerprint, answer: 'once' }), await post('stop', {}), await post('tools/exec/switch', { on: false }), await post('pair', {})];
        },
        [id, fingerprint],
      );
      assert.deepEqual(tried, [403, 403, 403, 403]);

      const approver = await enter('ops-1', ['oncall']);
      await approver.getByRole('link', { name: 'Questions 1 open' }).click();
      await (await card(approver, 'edit_file')).getByRole('button', { name: 'Yes, once' }).click();
      assert.equal((await reply).isError ?? false, false);
      assert.equal(await approver.evaluate(() => fetch('api/stop', { method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Mimir-Console': '1' }, body: '{}' }).then((answer) => answer.status)), 403);
      await viewer.getByText(/^Answered: yes, once/).waitFor();

      const admin = await enter('root-1', []);
      await admin.getByRole('button', { name: 'Stop all' }).click();
      await admin.getByRole('dialog').getByRole('button', { name: 'Stop all calls' }).click();
      await viewer.getByRole('alert', { name: 'Stopped' }).waitFor();
      await admin.getByRole('button', { name: 'Start again…' }).click();
      await admin.getByRole('dialog').getByRole('button', { name: 'Start again' }).click();
      await viewer.getByRole('alert', { name: 'Stopped' }).waitFor({ state: 'hidden' });

      // Who answered is on record.
      await go(admin, 'record');
      await admin.getByRole('listbox', { name: /^Record/ }).getByRole('option', { name: /edit_file/ }).first().click();
      await admin.getByRole('region', { name: 'Story of a call' }).getByText(/ops-1/).first().waitFor();
      await shot(admin, 'story-team-record');

      // Somebody without a role.
      provider.person = { sub: 'guest', groups: [] };
      const context = await browser.newContext();
      const stranger = await context.newPage();
      await stranger.goto(`${origin}/console/login`);
      const seen = await stranger.evaluate((origin) => fetch(`${origin}/console/api/state`).then((answer) => answer.status), origin).catch(() => 'refused');
      assert.ok([401, 403].includes(seen), `a stranger got ${seen}`);
      await shot(stranger, 'story-without-role');
      await context.close();
      await Promise.all([viewer, approver, admin].map(closeQuietly));
    } finally {
      provider.stop();
      await workspace.close();
    }
  },
};

/** Pages that went to the provider for the login have loaded from elsewhere, as they must. */
async function closeQuietly(page) {
  await closePage(page).catch((error) => {
    const faults = (error.actual ?? []).filter((fault) => !/^loaded http:\/\/127\.0\.0\.1:\d+\/authorize/.test(fault));
    assert.deepEqual(faults, []);
  });
}
