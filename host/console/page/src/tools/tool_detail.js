/** One tool: what it needs, what it may, what it costs, and whether to trust it. */
import { html, useState } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { ago, bytes, count, duration, oneLine, short } from '../base/format.js';
import { announce } from '../base/notify.js';
import { href } from '../base/router.js';
import { isAdmin, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { ErrorText, Facts, Risk, Tag } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { DetailPane, LoadState } from '../parts/split.js';
import { Framed, Name, Names } from '../parts/text.js';
import { trustOf } from './tool_list.js';

const PROOF = { 'no-network': 'cannot reach the network', 'no-commands': 'cannot run commands', 'no-tools': 'cannot call other tools', 'no-model': 'cannot ask a model', 'no-files': 'cannot open files', 'no-storage': 'cannot store data' };

export function ToolDetail({ name, onClose }) {
  const load = useLoad(`tools/${segment(name)}`, 'tools');
  const tool = load.data;
  const state = useStore(session);
  const [isTrusting, setTrusting] = useState(false);
  const trust = useAction(async () => {
    setTrusting(false);
    await post(`tools/${segment(name)}/trust`, { digest: tool.digest });
    announce('The tool is trusted in this version.');
    emitChange('tools');
  });
  const { state: trustState, text: trustText, tone } = trustOf(tool ?? {});
  const canTrust = tool && tone !== 'faint' && tool.digest;
  return html`
    <${DetailPane}
      label="Tool"
      title=${html`<${Name} text=${name} max=${70} strong />`}
      tags=${tool && html`<${Risk} risk=${tool.risk} />`}
      actions=${canTrust && html`<button class="primary" disabled=${!isAdmin(state)} onClick=${() => setTrusting(true)}>Trust…</button>`}
      onClose=${onClose}
    >
      <${ErrorText} error=${trust.error} />
      <${LoadState} load=${load} what="the tool" />
      ${tool &&
        html`
          ${tone !== 'faint' && html`<p class="message warn">Not trusted: <${Name} text=${trustText} max=${300} /></p>`}
          ${tool.descriptionProblem && html`<p class="message bad"><${Name} text=${tool.descriptionProblem} max=${400} /></p>`}
          ${tool.trustDiff?.length > 0 && html`<h3>Changed since you granted it</h3><${Changes} changes=${tool.trustDiff} />`}
          <h3>What it says about itself</h3>
          <${Framed} text=${tool.description} label="Description" />
          <h3>Needs and grants</h3>
          <${Needs} needs=${tool.needs} grants=${tool.grants} />
          ${tool.proofs?.length > 0 && html`<h3>Its imports prove that it</h3><p>${tool.proofs.map((proof, index) => html`${index ? ', ' : ''}${PROOF[proof] ?? html`<${Name} text=${proof} />`}`)}.</p>`}
          <h3>Facts</h3>
          <${Facts}
            facts=${[
              ['Source', tool.source],
              ['File', html`<${Name} text=${tool.location} max=${300} />`],
              ['Version', tool.version && html`<${Name} text=${`${tool.plugin ?? ''} ${tool.version}`} />`],
              ['sha256', tool.digest && html`<${Name} text=${tool.digest} />`],
              ['Signed by', tool.signer ? html`<${Name} text=${tool.signer} />` : 'not signed'],
              ['Trust', html`${oneLine(trustState, 20)}${trustText !== trustState ? html`: <${Name} text=${trustText} />` : ''}`],
              ['Policy', tool.approval && oneLine(tool.approval, 20)],
              ['Limits', tool.limits && `${duration(tool.limits.timeMs)}, ${short(tool.limits.fuel)} fuel, ${bytes(tool.limits.memoryBytes)}`],
              ['Tokens in a prompt', tool.tokenCosts ? Object.entries(tool.tokenCosts).map(([form, cost]) => `${oneLine(form, 16)} ${count(cost)}`).join(', ') : count(tool.tokenCost)],
              ['Last use', tool.lastUsed ? ago(tool.lastUsed) : 'not on record'],
              ['Calls in 30 days', html`<a href=${href('record', [], { tool: tool.name })}>${count(tool.calls30d ?? 0)}</a>`],
            ]}
          />
          ${tool.sourceText && html`<details><summary>Text of the tool</summary><${Framed} text=${tool.sourceText} label="Text of the tool" /></details>`}
          ${tool.inputSchema && html`<details><summary>Arguments</summary><${Framed} text=${JSON.stringify(tool.inputSchema, null, 2)} label="Schema of the arguments" /></details>`}
          ${tool.imports?.length > 0 && html`<details><summary>Imports</summary><${Names} texts=${tool.imports} /></details>`}
        `}
      ${isTrusting &&
      html`
        <${Dialog} title="Trust this version?" onClose=${() => setTrusting(false)} wide>
          <p><${Name} text=${name} strong /> with the sha256 <${Name} text=${tool.digest} /> may then use everything below${tool.ifTrusted && `; ${tool.ifTrusted}`}. Another version must be trusted again.</p>
          ${tool.trustDiff?.length > 0 && html`<h3>Changed since you granted it</h3><${Changes} changes=${tool.trustDiff} />`}
          <h3>Needs</h3>
          <${Needs} needs=${tool.needs} grants=${tool.grants} />
          ${tool.sourceText
            ? html`<h3>Its text${trustState === 'changed' ? ', all of it: the version that was granted is not kept' : ''}</h3><${Framed} text=${tool.sourceText} label="Text of the tool" />`
            : html`<p class="faint">Its code cannot be shown here: look at <${Name} text=${tool.location} max=${300} />.</p>`}
          <div class="actions">
            <button autofocus onClick=${() => setTrusting(false)}>Back</button>
            <button class="primary" onClick=${trust.run}>Trust this version</button>
          </div>
        <//>
      `}
    <//>
  `;
}

/** Changes of a plugin: one line each. */
const Changes = ({ changes }) => html`<${Names} texts=${changes.map((change) => (typeof change === 'string' ? change : (change.text ?? JSON.stringify(change))))} />`;

/** The needs with whether each is granted. `needs` is a list, or an object by kind as the tool declares it. */
function Needs({ needs, grants = [] }) {
  const list = Array.isArray(needs)
    ? needs
    : Object.entries(needs ?? {}).flatMap(([kind, values]) => [values].flat().map((value) => `${kind}: ${describe(value)}`));
  if (!list.length && !grants.length) return html`<p class="faint">It needs no files, hosts, commands or secrets.</p>`;
  return html`
    <ul class="needs">
      ${list.map((need, index) => {
        const text = typeof need === 'string' ? need : (need.need ?? need.text ?? describe(need));
        const isGranted = typeof need === 'object' ? need.granted : undefined;
        return html`<li key=${index}><${Name} text=${text} max=${300} />${isGranted !== undefined && html`<${Tag} tone=${isGranted ? 'good' : 'warn'}>${isGranted ? 'granted' : 'not granted'}<//>`}</li>`;
      })}
    </ul>
    ${grants.length > 0 && !list.some((need) => need?.granted !== undefined) && html`<p class="faint small">Granted:</p><${Names} texts=${grants.map((grant) => (typeof grant === 'string' ? grant : JSON.stringify(grant)))} />`}
  `;
}

function describe(value) {
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.values(value).filter((part) => typeof part === 'string').join(' – ') || JSON.stringify(value);
}
