/** The rules of all layers, with their origin. */
import { html, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { oneLine, plural } from '../base/format.js';
import { isAdmin, session } from '../base/session.js';
import { useStore } from '../base/store.js';
import { Decision, Empty, Tag } from '../parts/controls.js';
import { useCut } from '../parts/cut_list.js';
import { LoadState } from '../parts/split.js';
import { Name, Names } from '../parts/text.js';
import { EditRow } from './edit_policy.js';
import { StoredApprovals } from './stored_approvals.js';

const LAYER = { team: 'Team', user: 'Your settings', project: 'Project settings', environment: 'Environment variables', mimir: 'Built in', 'built-in': 'Built in', system: 'This machine', tools: 'Defaults of the tools' };

export function RuleLayers() {
  const load = useLoad('policy', 'policy');
  const { data } = load;
  const person = useStore(session);
  const [text, setText] = useState('');
  const [edit, setEdit] = useState(null);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (rule) => {
    const searched = `${rule.rule} ${toolsOf(rule)} ${rule.text} ${rule.decision ?? 'setting'}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  };
  const layers = data?.layers ?? [];
  return html`
    <div class="toolbar plain">
      <input data-search type="search" class="search" placeholder="Filter: key, tool, text" aria-label="Filter rules" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
      <span class="faint small">${data?.precedence}</span>
    </div>
    <${LoadState} load=${load} what="the rules" />
    ${data && !layers.length && html`<${Empty} title="No rules">Only the defaults of the tools apply.<//>`}
    ${data?.withheld?.length > 0 && html`<div class="message warn"><p>Not in force until you accept the project's file with <code>mimir policy accept</code>:</p><${Names} texts=${data.withheld} /></div>`}
    ${layers.map((layer, index) => html`<${Layer} key=${index} layer=${layer} rules=${(layer.rules ?? []).filter(fits)} isFiltered=${words.length > 0} onEdit=${isAdmin(person) ? setEdit : null} />`)}
    <${StoredApprovals} title="Answered “always”" approvals=${(data?.approvals ?? []).filter(({ tool, pattern }) => fits({ rule: pattern, tools: tool, text: '', decision: 'allow' }))} />
    ${edit && html`<${EditRow} start=${edit} onClose=${() => setEdit(null)} />`}
  `;
}

/** Rows of a layer, and tools of a rule, that are shown at first. */
const SHOWN_MAX = 200;
const TOOLS_MAX = 8;

const toolsOf = ({ tools }) => (Array.isArray(tools) ? tools.join(', ') : (tools ?? ''));

function Layer({ layer: { name, source, editable, rules: all = [] }, rules, isFiltered, onEdit }) {
  const title = LAYER[name] ?? oneLine(name, 40);
  const { shown, button } = useCut(rules, SHOWN_MAX, 'row');
  const settings = rules.filter(({ kind }) => kind === 'setting').length;
  const counted = [plural(rules.length - settings, 'rule'), settings > 0 && plural(settings, 'setting')].filter(Boolean).join(', ');
  return html`
    <section class="panel" aria-label=${`Rules: ${title}`}>
      <div class="panel-head">
        <h2>${title}</h2>
        ${source && html`<${Name} text=${source} max=${120} />`}
        ${!editable && html`<${Tag} tone="faint">not editable here<//>`}
        <span class="spacer"></span>
        <span class="faint small">${counted}</span>
      </div>
      ${!rules.length && html`<p class="faint small">${isFiltered && all.length ? 'None of its rules fits the filter.' : 'This file has no rules.'}</p>`}
      ${rules.length > 0 &&
      html`
        <ul class="rule-list">
          ${shown.map(
            (rule, index) => html`
              <li key=${index}>
                ${rule.decision ? html`<${Decision} decision=${rule.decision} />` : html`<${Tag} tone="faint">setting<//>`}
                <div class="grow">
                  <${Name} text=${rule.rule} max=${200} strong />${toolsOf(rule) && html` <span class="faint small">for</span> <${ToolNames} tools=${rule.tools} />`}
                  <div class="small">${rule.text && html`<${Name} text=${rule.text} max=${300} />`}${rule.line ? html` <span class="faint">line ${rule.line}</span>` : ''}</div>
                </div>
                ${editable && rule.edit && onEdit && html`<button aria-label=${`Change ${oneLine(rule.rule, 80)}`} onClick=${() => onEdit({ file: name, ...rule.edit })}>Change…</button>`}
              </li>
            `,
          )}
        </ul>
        ${button}
      `}
    </section>
  `;
}

/** The tools of a rule, the first ones of a longer list. */
function ToolNames({ tools }) {
  const all = Array.isArray(tools) ? tools : [tools];
  const { shown, button } = useCut(all, TOOLS_MAX, 'tool');
  return html`<${Name} text=${shown.join(', ')} max=${2000} /> ${button}`;
}
