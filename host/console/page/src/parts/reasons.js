/** The rules that applied to a call. */
import { html } from '../base/html.js';
import { Decision } from './controls.js';
import { HostText, isHostLayer } from './host_text.js';
import { Name } from './text.js';

const LAYER = {
  'team-policy': "the team's policy",
  enabled: 'the switch of the tool',
  'tool-policy': 'the lists of tools',
  'tool-approval': 'your setting for the tool',
  commands: 'the rules about commands',
  paths: 'the protected files',
  'argument-rule': 'a rule about arguments',
  danger: 'a danger pattern',
  condition: 'a condition of the tool',
  assessor: "the tool's own assessment",
  'tool-default': "the tool's default",
  trust: 'the grant of the plugin',
  taint: 'what the session has read',
  network: 'the rules about hosts',
  secrets: 'the search for secrets',
};

/** Names the layer of a rule for people. */
export const layerName = (layer) => LAYER[layer] ?? 'a rule';

/** @param {{ decision?: string, reasons?: object[], said?: string }} props `said` is a text that is above already. */
export function Reasons({ decision, reasons: given, said }) {
  const reasons = given ?? [];
  return html`
    ${decision && html`<p class="decided">Decision: <${Decision} decision=${decision} /></p>`}
    <ul class="reasons">
      ${reasons.map(
        (reason, index) => html`
          <li key=${index}>
            <div class="reason-head"><${Decision} decision=${reason.decision} /> <span>${layerName(reason.layer)}</span></div>
            ${reason.text !== said && html`<${isHostLayer(reason.layer) ? HostText : Name} text=${reason.text} max=${600} />`}
            <div class="small faint">${reason.rule && html`<${Name} text=${reason.rule} max=${160} />`}${reason.source && html` in <${Name} text=${reason.source} max=${160} />`}</div>
          </li>
        `,
      )}
    </ul>
    ${!reasons.length && html`<p class="faint">No rule applied.</p>`}
  `;
}
