/** The list of tools. */
import { html, useState } from '../base/html.js';
import { post, segment, useLoad } from '../base/api.js';
import { ago, count, oneLine, plural } from '../base/format.js';
import { go, href } from '../base/router.js';
import { isAdmin, session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { useAction } from '../parts/action.js';
import { Empty, ErrorText, Switch, Tag } from '../parts/controls.js';
import { LoadState, Split, useListKeys } from '../parts/split.js';
import { Name } from '../parts/text.js';
import { ToolDetail } from './tool_detail.js';

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
  const select = (name) => go(href('tools', ['list', name]), selected !== null);
  const close = () => go(href('tools'));
  useListKeys(shown.map(({ name }) => name), selected, select, close);
  const turn = useAction((name, on) => post(`tools/${segment(name)}/switch`, { on }).finally(reload));
  const needsTrust = all.filter((tool) => trustOf(tool).tone !== 'faint').length;
  const list = html`
    <div class="toolbar">
      <input data-search type="search" class="search" placeholder="Search tools" aria-label="Search tools" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
      <span class="faint small">${plural(shown.length, 'tool')}${needsTrust ? `, ${needsTrust} without trust` : ''}</span>
    </div>
    <${ErrorText} error=${turn.error} />
    <${LoadState} load=${load} what="tools" />
    ${data && !shown.length && html`<${Empty} title="No tool found">Change the search, or add tools with <code>mimir tools add</code>.<//>`}
    <ul class="tool-list">
      ${shown.map(
        (tool) => html`
          <li key=${tool.name} class=${tool.name === selected ? 'tool-item selected' : 'tool-item'}>
            <a href=${href('tools', ['list', tool.name])} aria-current=${tool.name === selected ? 'true' : undefined}>
              <span class="line"><${Name} text=${tool.name} max=${60} strong /> <span class="faint small">${tool.source}${tool.signer ? html`, signed by <${Name} text=${tool.signer} max=${40} />` : ''}</span><span class="spacer"></span>${trustOf(tool).tone !== 'faint' && html`<${Tag} tone=${trustOf(tool).tone}>${oneLine(trustOf(tool).state, 24)}<//>`}</span>
              <span class="line small"><span class="grow clip inline-foreign" translate="no">${oneLine(tool.description, 160)}</span><span class="faint">${tool.lastUsed ? ago(tool.lastUsed) : 'not used'}${tool.calls30d ? `, ${count(tool.calls30d)} in 30 days` : ''}, ${count(tool.tokenCost)} tokens</span></span>
            </a>
            <${Switch} label=${`${oneLine(tool.name, 60)} is on`} isOn=${!!tool.enabled} isDisabled=${!isAdmin(state)} onChange=${(on) => turn.run(tool.name, on)} />
          </li>
        `,
      )}
    </ul>
  `;
  const detail = selected && html`<${ToolDetail} key=${selected} name=${selected} onClose=${close} />`;
  return html`<${Split} label="Tools" list=${list} detail=${detail} />`;
}
