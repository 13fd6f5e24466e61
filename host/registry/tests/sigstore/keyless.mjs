// Signs a statement with npm @sigstore/sign and the services of @sigstore/mock, without a network:
// node keyless.mjs STATEMENT CURVE. Prints {bundle, root}: the bundle, and the trust root that verifies it. The key of the
// authority, of this curve, is also that of the log of certificates, whose timestamp the certificate has.
import { readFileSync } from 'node:fs';
import { generateKeyPairSync } from 'node:crypto';
import { bundleToJSON } from '@sigstore/bundle';
import mock from '@sigstore/mock';
import { DSSEBundleBuilder, FulcioSigner, RekorWitness } from '@sigstore/sign';

const [, , statement, namedCurve] = process.argv;
const ca = generateKeyPairSync('ec', { namedCurve });
const log = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const [fulcioBaseURL, rekorBaseURL] = ['https://fulcio.example.com', 'https://rekor.example.com'];
await mock.mockFulcio({ baseURL: fulcioBaseURL, keyPair: ca });
await mock.mockRekor({ baseURL: rekorBaseURL, keyPair: log });
const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
const claims = { sub: 'https://code.example.com/acme/weather', iss: 'https://issuer.example.com' };
const token = `${encode({ alg: 'none' })}.${encode(claims)}.`;
const identityProvider = { getToken: async () => token };
const builder = new DSSEBundleBuilder({
  signer: new FulcioSigner({ fulcioBaseURL, identityProvider }),
  witnesses: [new RekorWitness({ rekorBaseURL, entryType: 'intoto' })],
  certificateChain: false,
});
const type = 'application/vnd.in-toto+json';
const bundle = await builder.create({ data: readFileSync(statement), type });
const authority = await mock.initializeCA(ca);
const raw = (bytes) => Buffer.from(bytes).toString('base64');
const validFor = { start: '2020-01-01T00:00:00Z' };
const publicKey = (key) => ({ rawBytes: raw(key.publicKey.export({ format: 'der', type: 'spki' })), validFor });
const root = {
  mediaType: 'application/vnd.dev.sigstore.trustedroot+json;version=0.1',
  tlogs: [{ publicKey: publicKey(log) }],
  // mimir reads no other curve in logs.
  ctlogs: namedCurve === 'P-256' ? [{ publicKey: publicKey(ca) }] : [],
  certificateAuthorities: [{
    certChain: { certificates: [{ rawBytes: raw(authority.rootCertificate) }] }, validFor,
  }],
};
console.log(JSON.stringify({ bundle: bundleToJSON(bundle), root }));
