/** The list of tools. */
import { html, useState } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { ago, count, millis, oneLine, plural } from '../base/format.js';
import { go, href } from '../base/router.js';
import { adminOnly, isAdmin, session } from '../base/session.js';
import { recall, remember } from '../base/settings.js';
import { createStore, useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { Empty, ErrorText, RoleNote, Switch, Tag } from '../parts/controls.js';
import { LoadState, Split, useListKeys } from '../parts/split.js';
import { Name } from '../parts/text.js';
import { ToolDetail } from './tool_detail.js';

const LEFT_OUT_MAX = 20;

const TRUST_TONE = { 'built-in': 'faint', trusted: 'faint', harmless: 'faint' };

/** Reads the trust of a tool: an object with state and text, or one word. */
export function trustOf({ trust, trustState = trust }) {
  const { state, text } = typeof trustState === 'object' && trustState ? trustState : { state: trustState ?? 'unknown' };
  return { state, text: text ?? state, tone: TRUST_TONE[state] ?? 'warn' };
}

export function ToolList({ selected }) {
  const load = useLoad('tools', 'tools');
  const { data, reload } = load;
  const state = useStore(session);
  const [text, setText] = useState('');
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = data?.tools ?? [];
  const shown = all.filter((tool) => {
    const searched = `${tool.name} ${tool.source} ${tool.group} ${tool.risk} ${tool.description}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  });
  const sort = useStore(toolSort);
  const groups = groupTools(shown, sort);
  const select = (name) => go(href('tools', ['list', name]), selected !== null);
  const close = () => go(href('tools'));
  useListKeys(groups.flatMap(({ tools }) => tools.map(({ name }) => name)), selected, select, close);
  const turn = useAction((name, on) => post(`tools/${segment(name)}/switch`, { on }).finally(reload));
  const needsTrust = all.filter((tool) => trustOf(tool).tone !== 'faint').length;
  const list = html`
    <div class="toolbar">
      <input data-search type="search" class="search" placeholder="Search tools" aria-label="Search tools" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
      <select aria-label="Order of the tools" value=${sort} onChange=${(event) => { remember('tools-sort', event.currentTarget.value); toolSort.set(event.currentTarget.value); }}>${Object.entries(SORTS).map(([id, { text: name }]) => html`<option key=${id} value=${id}>${name}</option>`)}</select>
      <span class="faint small">${plural(shown.length, 'tool')}${needsTrust ? `, ${needsTrust} without trust` : ''}</span>
    </div>
    <${RoleNote} text=${adminOnly(state, 'Switching tools on and off')} />
    <${ErrorText} error=${turn.error} />
    <${LoadState} load=${load} what="tools" />
    ${data && !shown.length && html`<${Empty} title="No tool found">Change the search, or add tools with <code>mimir tools add</code>.<//>`}
    <div class="tool-list">
      <${LeftOut} files=${data?.quarantined} />
      ${groups.map(
        ({ title, tools }) => html`
          ${title && html`<h2 class="group-head">${title} (${count(tools.length)})</h2>`}
          <ul aria-label=${title || 'Tools'}>
            ${tools.map((tool) => html`<${ToolItem} key=${tool.name} tool=${tool} isSelected=${tool.name === selected} mayTurn=${isAdmin(state)} onTurn=${turn.run} />`)}
          </ul>
        `,
      )}
    </div>
  `;
  const detail = selected && html`<${ToolDetail} key=${selected} name=${selected} onClose=${close} />`;
  return html`<${Split} label="Tools" list=${list} detail=${detail} />`;
}

/** Files and tools that cannot be used, each with its problem. */
function LeftOut({ files = [] }) {
  if (!files.length) return null;
  return html`
    <section class="message bad slim" aria-label="Left out because of a problem">
      <p><strong>${plural(files.length, 'tool or file', 'tools or files')} left out because of a problem</strong></p>
      <ul>${files.slice(0, LEFT_OUT_MAX).map(({ location, reason }, index) => html`<li key=${index}><${Name} text=${location} max=${200} />: <${Name} text=${reason} max=${600} /></li>`)}</ul>
      ${files.length > LEFT_OUT_MAX && html`<p class="small">The others: <code>mimir tools list</code>.</p>`}
    </section>
  `;
}

function ToolItem({ tool, isSelected, mayTurn, onTurn }) {
  const trust = trustOf(tool);
  return html`
    <li class=${isSelected ? 'tool-item selected' : 'tool-item'}>
      <a href=${href('tools', ['list', tool.name])} aria-current=${isSelected ? 'true' : undefined}>
        <span class="line"><${Name} text=${tool.name} max=${60} strong /> <span class="faint small">${tool.source}${tool.signer ? html`, signed by <${Name} text=${tool.signer} max=${40} />` : ''}</span><span class="spacer"></span>${trust.tone !== 'faint' && html`<${Tag} tone=${trust.tone}>${oneLine(trust.state, 24)}<//>`}</span>
        <span class="line small"><span class="grow clip inline-foreign" translate="no">${oneLine(tool.description, 160)}</span><span class="faint">${tool.lastUsed ? `used ${ago(tool.lastUsed)}` : 'not used'}${tool.calls30d ? `, ${plural(tool.calls30d, 'call')} in 30 days` : ''}, ${count(tool.tokenCost)} tokens</span></span>
      </a>
      <${Switch} label=${`${oneLine(tool.name, 60)} is on`} isOn=${!!tool.enabled} isDisabled=${!mayTurn} onChange=${(on) => onTurn(tool.name, on)} />
    </li>
  `;
}

const byName = (one, other) => one.name.localeCompare(other.name);
const RISKS = ['low', 'medium', 'high', 'critical'];
const most = (value) => (one, other) => value(other) - value(one) || byName(one, other);

/** The orders of the list. The first one has groups. */
const SORTS = {
  use: { text: 'by last use', compare: most(({ lastUsed }) => millis(lastUsed) || 0) },
  name: { text: 'by name', compare: byName },
  calls: { text: 'by calls', compare: most(({ calls30d }) => calls30d ?? 0) },
  tokens: { text: 'by tokens', compare: most(({ tokenCost }) => tokenCost ?? 0) },
  risk: { text: 'by risk', compare: most(({ risk }) => RISKS.indexOf(risk)) },
};

const remembered = recall('tools-sort');
const toolSort = createStore(Object.hasOwn(SORTS, remembered ?? '') ? remembered : 'use');

/** Sorts tools; by last use, the tools that were used come first, and the others by name. */
export function groupTools(tools, sort) {
  const sorted = [...tools].sort(SORTS[sort].compare);
  if (sort !== 'use') return [{ title: '', tools: sorted }];
  const [used, others] = [sorted.filter(({ lastUsed }) => lastUsed), sorted.filter(({ lastUsed }) => !lastUsed)];
  return [
    { title: 'Used in the last 30 days', tools: used },
    { title: used.length ? 'Not used in the last 30 days' : 'No tool was used in the last 30 days', tools: others },
  ].filter((group) => group.tools.length);
}
