// Verifies a bundle with npm @sigstore/verify: node judge.mjs BUNDLE PUBLIC-KEY MANIFEST-HEX. Prints `verified`, `refused`
// with the code, or `about another artifact`.
import { readFileSync } from 'node:fs';
import { createPublicKey } from 'node:crypto';
import { bundleFromJSON } from '@sigstore/bundle';
import { Verifier, toSignedEntity } from '@sigstore/verify';

const [, , file, keyFile, manifest] = process.argv;
const publicKey = createPublicKey(readFileSync(keyFile));
const material = {
  certificateAuthorities: [], timestampAuthorities: [], tlogs: [], ctlogs: [],
  publicKey: () => ({ publicKey, validFor: () => true }),
};
const thresholds = { tlogThreshold: 0, ctlogThreshold: 0, timestampThreshold: 0, tsaThreshold: 0 };
try {
  const bundle = bundleFromJSON(JSON.parse(readFileSync(file)));
  new Verifier(material, thresholds).verify(toSignedEntity(bundle));
  const statement = JSON.parse(Buffer.from(bundle.content.dsseEnvelope.payload));
  const isSame = statement.subject.length === 1 && statement.subject[0].digest.sha256 === manifest;
  console.log(isSame ? 'verified' : 'about another artifact');
} catch (error) {
  console.log('refused', error.code ?? error.message);
}
