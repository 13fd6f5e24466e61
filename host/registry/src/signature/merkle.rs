//! Inclusion proofs of a Merkle tree (RFC 9162, section 2.1.3).

use sha2::{Digest as _, Sha256};

/// A node of a tree.
pub(super) type TreeHash = [u8; 32];

/// Returns the hash of a leaf.
pub(super) fn leaf_hash(content: &[u8]) -> TreeHash {
    let hash = Sha256::new().chain_update([0]).chain_update(content);
    hash.finalize().into()
}

fn inner_hash(left: &TreeHash, right: &TreeHash) -> TreeHash {
    let hash = Sha256::new().chain_update([1]);
    hash.chain_update(left)
        .chain_update(right)
        .finalize()
        .into()
}

/// Returns the root of the tree of `size` leaves in which `leaf` has this index, according to the proof; `None` if the
/// proof has the wrong length.
pub(super) fn root_of_proof(
    leaf: TreeHash,
    index: u64,
    size: u64,
    proof: &[TreeHash],
) -> Option<TreeHash> {
    if index >= size {
        return None;
    }
    let (mut node, mut last) = (index, size - 1);
    let mut hash = leaf;
    for sibling in proof {
        if last == 0 {
            return None;
        }
        if node & 1 == 1 || node == last {
            hash = inner_hash(sibling, &hash);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            hash = inner_hash(&hash, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(hash)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns the root of a tree and the proof of the leaf with this index.
    pub fn prove(leaves: &[TreeHash], index: usize) -> (TreeHash, Vec<TreeHash>) {
        if let [leaf] = leaves {
            return (*leaf, Vec::new());
        }
        let half = leaves.len().next_power_of_two() / 2;
        let (left, right) = leaves.split_at(half);
        let inside_left = index < half;
        let (left_root, left_proof) = prove(left, if inside_left { index } else { 0 });
        let (right_root, right_proof) = prove(right, if inside_left { 0 } else { index - half });
        let (mut proof, sibling) = if inside_left {
            (left_proof, right_root)
        } else {
            (right_proof, left_root)
        };
        proof.push(sibling);
        (inner_hash(&left_root, &right_root), proof)
    }

    #[test]
    fn merkle_proofs_of_all_small_trees_hold_and_no_others() {
        for size in 1..20_usize {
            let leaves: Vec<_> = (0..size).map(|at| leaf_hash(&[at as u8])).collect();
            for index in 0..size {
                let (root, proof) = prove(&leaves, index);
                let computed = |index, proof: &[TreeHash]| {
                    root_of_proof(leaves[index as usize % size], index, size as u64, proof)
                };
                assert_eq!(
                    computed(index as u64, &proof),
                    Some(root),
                    "{index} of {size}"
                );
                for other in (0..size).filter(|other| *other != index) {
                    assert_ne!(computed(other as u64, &proof), Some(root));
                }
                let longer = [&proof[..], &[root]].concat();
                assert_ne!(computed(index as u64, &longer), Some(root));
                if let Some((_, shorter)) = proof.split_last() {
                    assert_ne!(computed(index as u64, shorter), Some(root));
                }
            }
            assert_eq!(
                root_of_proof(leaves[0], size as u64, size as u64, &[]),
                None
            );
        }
    }
}
