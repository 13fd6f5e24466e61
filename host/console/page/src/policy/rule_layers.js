/** The rules of all layers, with their origin. */
import { html, useState } from '../base/html.js';
import { useLoad } from '../base/api.js';
import { oneLine, plural } from '../base/format.js';
import { href } from '../base/router.js';
import { Decision, Empty, Tag } from '../parts/controls.js';
import { LoadState } from '../parts/split.js';
import { Name } from '../parts/text.js';

const LAYER = { team: 'Team', user: 'You', project: 'Project', mimir: 'Built in', 'built-in': 'Built in', system: 'This machine', tools: 'Defaults of the tools' };

export function RuleLayers() {
  const load = useLoad('policy', 'policy');
  const { data } = load;
  const [text, setText] = useState('');
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (rule) => {
    const searched = `${rule.rule} ${toolsOf(rule)} ${rule.text} ${rule.decision}`.toLowerCase();
    return words.every((word) => searched.includes(word));
  };
  const layers = data?.layers ?? [];
  return html`
    <div class="toolbar plain">
      <input data-search type="search" class="search" placeholder="Search rules" aria-label="Search rules" value=${text} onInput=${(event) => setText(event.currentTarget.value)} />
      <span class="faint small">The strictest decision wins: deny, then ask, then allow.</span>
    </div>
    <${LoadState} load=${load} what="the rules" />
    ${data && !layers.length && html`<${Empty} title="No rules">Only the defaults of the tools apply.<//>`}
    ${layers.map((layer, index) => html`<${Layer} key=${index} layer=${layer} rules=${(layer.rules ?? []).filter(fits)} />`)}
  `;
}

const toolsOf = ({ tools }) => (Array.isArray(tools) ? tools.join(', ') : (tools ?? ''));

function Layer({ layer: { name, source, editable }, rules }) {
  const title = LAYER[name] ?? oneLine(name, 40);
  return html`
    <section class="panel" aria-label=${`Rules: ${title}`}>
      <div class="panel-head">
        <h2>${title}</h2>
        ${source && html`<${Name} text=${source} max=${120} />`}
        ${!editable && html`<${Tag} tone="faint">not editable here<//>`}
        <span class="spacer"></span>
        <span class="faint small">${plural(rules.length, 'rule')}</span>
      </div>
      ${rules.length > 0 &&
      html`
        <ul class="rule-list">
          ${rules.slice(0, 500).map(
            (rule, index) => html`
              <li key=${index}>
                <${Decision} decision=${rule.decision} />
                <div class="grow">
                  <${Name} text=${rule.rule} max=${200} strong />${toolsOf(rule) && html` <span class="faint small">for</span> <${Name} text=${toolsOf(rule)} max=${160} />`}
                  <div class="small">${rule.text && html`<${Name} text=${rule.text} max=${300} />`}${rule.line ? html` <span class="faint">line ${rule.line}</span>` : ''}</div>
                </div>
              </li>
            `,
          )}
        </ul>
        ${rules.length > 500 && html`<p class="faint small">The first 500 of ${plural(rules.length, 'rule')}; <a href=${href('policy')}>search</a> for the others.</p>`}
      `}
    </section>
  `;
}
