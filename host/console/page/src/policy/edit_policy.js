/** An edit of the settings: first as a diff, then applied. */
import { html, useLayoutEffect, useRef, useState } from '../base/html.js';
import { post, useLoad } from '../base/api.js';
import { announce } from '../base/notify.js';
import { route } from '../base/router.js';
import { adminOnly, isAdmin, session } from '../base/session.js';
import { emitChange, useStore } from '../base/store.js';
import { Empty, ErrorText, Loading } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { Diff } from '../parts/diff.js';
import { Names } from '../parts/text.js';
import { WhatIfResult } from '../record/what_if.js';
import { EditForm } from './edit_form.js';

const DAYS = 7;

/** An edit that may begin with a key and a value of the address: `#/policy/edit?key=audit.logArgs&yaml=true`. */
export function EditPolicy() {
  const { query } = useStore(route);
  const refusal = adminOnly(useStore(session), 'Changing settings');
  const [edit, setEdit] = useState(null);
  const [fault, setFault] = useState(null);
  const begin = (given) => {
    setFault(null);
    setEdit(given);
  };
  if (refusal) return html`<${Empty} title="You cannot change settings here">${refusal}<//>`;
  return html`
    <div class="two-columns">
      <section class="narrow-page">
        <h2>Change a setting</h2>
        <p class="faint">You see the change as a diff before it applies. Comments in the file stay.</p>
        <${RulesOnly} />
        <${EditForm} key=${`${query.key}=${query.yaml}`} action="Show the change" start=${query} fault=${fault} onEdit=${begin} />
      </section>
      <section class="narrow-page" aria-label="Change">${edit ? html`<h2>The change</h2><${Proposal} key=${JSON.stringify(edit)} edit=${edit} onFault=${setFault} onDone=${() => setEdit(null)} />` : html`<p class="faint">The diff appears here.</p>`}</section>
    </div>
  `;
}

/** The same edit in a dialog, for one row of the rules. */
export function EditRow({ start, onClose }) {
  const [edit, setEdit] = useState(null);
  const [fault, setFault] = useState(null);
  const begin = (given) => {
    setFault(null);
    setEdit(given);
  };
  return html`
    <${Dialog} title="Change a setting" onClose=${onClose} wide>
      <${EditForm} action="Show the change" start=${start} fault=${fault} onEdit=${begin} />
      ${edit && html`<h3>The change</h3><${Proposal} key=${JSON.stringify(edit)} edit=${edit} onFault=${setFault} onDone=${onClose} isDialog />`}
      ${!edit && html`<div class="actions"><button type="button" onClick=${onClose}>Cancel</button></div>`}
    <//>
  `;
}

/** Says which settings this console changes, if it is that of a server. */
function RulesOnly() {
  const { data } = useLoad('policy', 'policy');
  if (!data?.rulesOnly) return null;
  return html`<p class="message">This console changes rules: approvals, lists of tools, commands, files and hosts, and limits. Other settings are changed in the files, by the person who runs the server.</p>`;
}

/**
 * The diff of an edit, its effect on the record, and the button that applies it.
 * @param {{ edit: object, onDone: () => void, onFault?: (fault: object) => void, isDialog?: boolean }} props `onFault` is told which field is
 *   wrong. In a dialog, there is a button that closes it in each state.
 */
export function Proposal({ edit, onDone, onFault, isDialog = false }) {
  const person = useStore(session);
  const [proposal, setProposal] = useState(null);
  const [whatIf, setWhatIf] = useState({});
  const [error, setError] = useState(null);
  const [isApplied, setApplied] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setError(null);
    setProposal(null);
    try {
      const answer = await post('policy/propose', { edit });
      setProposal(answer);
      if (answer.problems?.length) {
        if (answer.fault) onFault?.({ ...answer.fault, text: problemText(answer.problems[0]) });
        return;
      }
    } catch (fault) {
      setError(fault);
      return;
    }
    setWhatIf({ isBusy: true });
    post('policy/what-if', { edit, days: DAYS }).then(
      (data) => setWhatIf({ data }),
      (fault) => setWhatIf({ error: fault }),
    );
  };
  useState(() => void load());
  const apply = async () => {
    setBusy(true);
    setError(null);
    try {
      await post('policy/apply', { edit, digest: proposal.digest });
      setApplied(true);
      announce('The change applies now.');
      emitChange('policy');
    } catch (fault) {
      setError(fault);
    }
    setBusy(false);
  };
  const problems = proposal?.problems ?? [];
  const isPossible = proposal && !problems.length;
  const buttons = useRef(null);
  // What applies the change is in sight, however long the form above is.
  useLayoutEffect(() => void buttons.current?.scrollIntoView({ block: 'nearest' }), [isPossible]);
  return html`
    <${ErrorText} error=${error} onRetry=${load} />
    ${!proposal && !error && html`<${Loading} what="the diff" />`}
    ${problems.length > 0 && (onFault && proposal.fault ? html`<p class="faint">The change is not possible: see the marked field.</p>` : html`<div class="message bad"><p>The change is not possible:</p><${Names} texts=${problems.map(problemText)} /></div>`)}
    ${isPossible &&
    html`
      <${Diff} files=${proposal.diff} />
      ${proposal.notes?.length > 0 && html`<div class="message warn"><p>Note:</p><${Names} texts=${proposal.notes} /></div>`}
      ${isApplied && html`<p class="message" role="status">Applied.${isDialog ? '' : html` <button class="link" onClick=${onDone}>Make another change</button>`}</p>`}
    `}
    ${(isDialog || (isPossible && !isApplied)) &&
    html`
      <div class="actions beside" ref=${buttons}>
        <button type="button" onClick=${onDone}>${isApplied ? 'Close' : isDialog ? 'Cancel' : 'Discard'}</button>
        ${isPossible && !isApplied && html`<button class="primary" disabled=${!isAdmin(person) || isBusy} onClick=${apply}>Apply to the file</button>`}
      </div>
    `}
    ${isPossible && !isAdmin(person) && html`<p class="faint small">${adminOnly(person, 'Applying')}</p>`}
    ${isPossible && html`<h3>With it, in the last ${DAYS} days</h3><${WhatIfResult} result=${whatIf} />`}
  `;
}

const problemText = (problem) => (typeof problem === 'string' ? problem : (problem.text ?? JSON.stringify(problem)));
