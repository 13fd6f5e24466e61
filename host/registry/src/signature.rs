//! Signatures of artifacts: keys, sigstore bundles and the trust policy.
