/** MCP servers: state, log, start and stop. */
import { html } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { oneLine, plural } from '../base/format.js';
import { announce } from '../base/notify.js';
import { adminOnly, isAdmin, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { Empty, ErrorText, RoleNote, Tag } from '../parts/controls.js';
import { LoadState } from '../parts/split.js';
import { Framed, Name } from '../parts/text.js';

const TONE = { running: 'good', connected: 'good', failed: 'bad', stopped: 'faint', off: 'faint' };

export function ServerList() {
  const load = useLoad('servers', 'servers');
  const { data } = load;
  const servers = data?.servers ?? [];
  const person = useStore(session);
  return html`
    <div class="page-scroll">
      ${servers.length > 0 && html`<${RoleNote} text=${adminOnly(person, 'Starting and stopping servers')} />`}
      <${LoadState} load=${load} what="servers" />
      ${data && !servers.length && html`<${Empty} title="No servers">Add one with <code>mimir mcp add NAME -- COMMAND</code>.<//>`}
      ${servers.map((server) => html`<${Server} key=${server.name} server=${server} />`)}
    </div>
  `;
}

function Server({ server: { name, state, transport, tools, error, logs = [], login } }) {
  const person = useStore(session);
  const act = useAction(async (action) => {
    await post(`servers/${segment(name)}/${action}`);
    announce(`${oneLine(name, 40)}: ${action}`);
    emitChange('servers');
  });
  const isRunning = state === 'running' || state === 'connected';
  const isOff = act.isBusy || !isAdmin(person);
  const loginText = typeof login === 'string' ? login : (login?.text ?? login?.state);
  return html`
    <section class="panel" aria-label=${`Server ${oneLine(name, 60)}`}>
      <div class="panel-head">
        <h2><${Name} text=${name} max=${60} strong /></h2>
        <${Tag} tone=${TONE[state] ?? 'warn'}>${oneLine(state, 30)}<//>
        <span class="faint small">${oneLine(transport, 20)}, ${plural(Number(Array.isArray(tools) ? tools.length : (tools ?? 0)), 'tool')}${loginText ? html`; login: <${Name} text=${loginText} />` : ''}</span>
        <span class="spacer"></span>
        ${isRunning
          ? html`<button disabled=${isOff} onClick=${() => act.run('restart')}>Restart</button><button class="danger-quiet" disabled=${isOff} onClick=${() => act.run('stop')}>Stop</button>`
          : html`<button disabled=${isOff} onClick=${() => act.run('start')}>Start</button>`}
      </div>
      ${error && html`<div class="message bad"><${Name} text=${error} max=${600} /></div>`}
      <${ErrorText} error=${act.error} />
      ${logs.length > 0 && html`<details open=${state === 'failed'}><summary>Log</summary><${Framed} text=${logs.map((line) => (typeof line === 'string' ? line : (line.text ?? JSON.stringify(line)))).join('\n')} label=${`Log of ${oneLine(name, 60)}`} /></details>`}
    </section>
  `;
}
