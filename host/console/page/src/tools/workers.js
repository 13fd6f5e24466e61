/** The workers of the workspace: background agents, and in a cluster the nodes that run and take calls. */
import { html, useEffect } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { ago, count, duration, plural } from '../base/format.js';
import { Empty, PlainTable, Tag } from '../parts/controls.js';
import { LoadState } from '../parts/split.js';
import { Name, Names } from '../parts/text.js';

const ROLES = { front: 'server', worker: 'worker', admin: 'command' };
const TONES = { ready: 'good', draining: 'warn' };

/** Time after which the nodes are read again, in milliseconds. */
const RELOAD_MS = 5_000;

/** Difference of clocks in milliseconds that is shown. Storing the time takes a few milliseconds. */
const SKEW_MIN = 1_000;

export function WorkerList() {
  const load = useLoad('workers', 'workers');
  const { data } = load;
  const nodes = data?.nodes;
  const isCluster = !!nodes;
  useEffect(() => {
    if (!isCluster) return undefined;
    const timer = setInterval(load.reload, RELOAD_MS);
    return () => clearInterval(timer);
  }, [isCluster]);
  return html`
    <div class="page-scroll">
      <${LoadState} load=${load} what="workers" />
      ${nodes && html`<${ClusterNodes} data=${data} />`}
      ${data && (data.rows?.length
        ? html`${nodes && html`<h3>Background agents</h3>`}<${PlainTable} label="Background agents" columns=${data.columns ?? []} rows=${data.rows} />`
        : !nodes && html`<${Empty} title="No workers">Background agents and workers of a cluster appear here.<//>`)}
    </div>
  `;
}

function ClusterNodes({ data }) {
  const { nodes, lost = [], problems = [], closing = [], otherNodes = 0 } = data;
  const workers = nodes.filter(({ role }) => role === 'worker').length;
  return html`
    <h2>${plural(workers, 'worker')}, ${plural(nodes.length - workers, 'other node')}</h2>
    ${problems.length > 0 && html`<div class="message warn" role="status"><p>Needs attention:</p><${Names} texts=${problems} /></div>`}
    <div class="table-box" role="region" aria-label="Nodes of the cluster" tabindex="0"><table>
      <thead><tr><th scope="col">State</th><th scope="col">Role</th><th scope="col">Machine</th><th scope="col">Workspace</th><th scope="col" class="right">Calls</th><th scope="col">Labels</th><th scope="col">Settings</th><th scope="col">Started</th></tr></thead>
      <tbody>${nodes.map((node) => html`<${NodeRow} key=${node.id} node=${node} />`)}</tbody>
    </table></div>
    ${otherNodes > 0 && html`<p class="faint small">${plural(otherNodes, 'node')} of other workspaces not shown.</p>`}
    ${lost.length > 0 &&
    html`
      <h3>Lost in the last day</h3>
      <p class="faint small">Another node has recorded the calls that these ran as UNAVAILABLE: they may have run.</p>
      <div class="table-box" role="region" aria-label="Lost nodes" tabindex="0"><table>
        <thead><tr><th scope="col">State</th><th scope="col">Role</th><th scope="col">Machine</th><th scope="col">Node</th><th scope="col">When</th></tr></thead>
        <tbody>${lost.map(({ id, role, host, at }) => html`<tr key=${id}><td><${Tag} tone="bad">lost<//></td><td>${ROLES[role] ?? '–'}</td><td>${host ? html`<${Name} text=${host} max=${60} />` : '–'}</td><td><${Name} text=${id} max=${64} /></td><td>${ago(at)}</td></tr>`)}</tbody>
      </table></div>
    `}
    ${closing.length > 0 && html`<p class="faint small">${plural(closing.length, 'process', 'processes')} ended just now; the record of their calls is being completed.</p>`}
  `;
}

function NodeRow({ node }) {
  const { id, role, host, state, workspace, labels = {}, capacity, inFlight, clockSkewMs, deployment, started, isSelf, console: hasConsole } = node;
  const facts = Object.entries(workspace?.facts ?? {}).map(([name, value]) => `${name} ${value}`);
  const needsRestart = deployment?.needsRestart ?? [];
  return html`
    <tr>
      <td><${Tag} tone=${TONES[state] ?? 'bad'}>${state ?? 'unknown'}<//></td>
      <td>${ROLES[role] ?? 'other'}${isSelf && html`<div class="faint small">this one</div>`}${hasConsole && html`<div class="faint small">with a console</div>`}</td>
      <td><${Name} text=${host} max=${40} />${Math.abs(clockSkewMs) >= SKEW_MIN && html` <${Tag} tone="warn">clock ${duration(Math.abs(clockSkewMs))} ${clockSkewMs > 0 ? 'ahead' : 'behind'}<//>`}<div class="faint small"><${Name} text=${id} max=${64} /></div></td>
      <td>${workspace ? html`<${Name} text=${workspace.name} max=${60} />${facts.length > 0 && html`<div class="faint small"><${Name} text=${facts.join(', ')} max=${60} /></div>`}` : '–'}</td>
      <td class="right">${capacity ? `${count(inFlight ?? 0)} of ${count(capacity)}` : '–'}</td>
      <td>${Object.keys(labels).length ? html`<${Name} text=${Object.entries(labels).map(([key, value]) => `${key}=${value}`).join(', ')} max=${80} />` : '–'}</td>
      <td>${deployment?.revision ? `deployment ${deployment.revision}` : 'own files'}${needsRestart.length > 0 && html` <${Tag} tone="warn">needs a restart<//>`}${deployment?.error && html`<div class="small"><${Name} text=${deployment.error} max=${200} /></div>`}</td>
      <td>${ago(started)}</td>
    </tr>
  `;
}
