/** The check of the record's hash chain. */
import { html, useState } from '../base/html.js';
import { get } from '../base/api.js';
import { count, plural } from '../base/format.js';
import { ErrorText, Facts } from '../parts/controls.js';
import { Dialog } from '../parts/dialog.js';
import { Framed, Name } from '../parts/text.js';

export function VerifyButton() {
  const [report, setReport] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const verify = async () => {
    setBusy(true);
    setError(null);
    try {
      setReport(await get('record/verify'));
    } catch (fault) {
      setError(fault);
    }
    setBusy(false);
  };
  const close = () => {
    setReport(null);
    setError(null);
  };
  return html`
    <button onClick=${verify} disabled=${isBusy}>${isBusy ? 'Verifying…' : 'Verify'}</button>
    ${(report || error) &&
    html`
      <${Dialog} title=${error ? 'The record could not be verified' : report.ok ? 'The record is intact' : 'The record has been changed'} tone=${report?.ok ? '' : 'bad'} onClose=${close}>
        <${ErrorText} error=${error} />
        ${report &&
        html`
          <p>${report.ok ? `Each of ${plural(report.lines, 'line')} ${report.writers === undefined ? `in ${plural(report.files, 'file')} follows from the one before it` : `of ${plural(report.writers, 'node')} in the cluster follows from the one before it of its node`}.` : 'Some lines do not follow from the lines before them.'}</p>
          <${Facts} facts=${[['First line', report.first], ['Last line', report.head?.seq], ['Last message', report.head?.sequence], ['Announced calls, running now', report.announcedCalls === undefined ? null : `${count(report.announcedCalls)}, ${count(report.runningCalls)}`], ['Its hash', report.head && html`<${Name} text=${report.head.hash} />`]]} />
          ${report.findings?.length > 0 && html`<${Framed} text=${report.findings.map((finding) => (typeof finding === 'string' ? finding : JSON.stringify(finding))).join('\n')} label="Findings" />`}
          ${report.more > 0 && html`<p>${plural(report.more, 'more finding')}</p>`}
        `}
        <div class="actions"><button autofocus onClick=${close}>Close</button></div>
      <//>
    `}
  `;
}
