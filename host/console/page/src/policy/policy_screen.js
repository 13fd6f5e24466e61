/** The policy: its rules, a test of a call, edits, and grants that are not needed. */
import { html } from '../base/html.js';
import { go, href, route } from '../base/router.js';
import { useStore } from '../base/store.js';
import { ClusterNote } from '../parts/cluster_note.js';
import { Tabs } from '../parts/controls.js';
import { EditPolicy } from './edit_policy.js';
import { ExplainCall } from './explain_call.js';
import { LeastPrivilege } from './least_privilege.js';
import { RuleLayers } from './rule_layers.js';

const TABS = [
  { id: 'rules', text: 'Rules' },
  { id: 'explain', text: 'Test a call' },
  { id: 'edit', text: 'Change' },
  { id: 'least', text: 'Least privilege' },
];

export function PolicyScreen() {
  const { parts } = useStore(route);
  const tab = TABS.some(({ id }) => id === parts[0]) ? parts[0] : 'rules';
  return html`
    <div class="screen">
      <${Tabs} label="Policy" tabs=${TABS} selected=${tab} onSelect=${(id) => go(href('policy', id === 'rules' ? [] : [id]))} />
      <${ClusterNote} about="policy" />
      <div class="page-scroll">
        ${tab === 'rules' && html`<${RuleLayers} />`}
        ${tab === 'explain' && html`<${ExplainCall} />`}
        ${tab === 'edit' && html`<${EditPolicy} />`}
        ${tab === 'least' && html`<${LeastPrivilege} />`}
      </div>
    </div>
  `;
}
