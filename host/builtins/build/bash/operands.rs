//! Operands of `${…}` and keys support nested expansions (`../../bash/operands.rs`).

use super::SourceEdit;

pub const EDITS: &[SourceEdit] = &[
    (
        "src/interpreter/mod.rs",
        "\nmod arithmetic_text;\n",
        1,
        "\nmod arithmetic_text;\nmod operands;\n",
    ),
    (
        "src/parser/mod.rs",
        "pub(crate) fn parameter_subscript_end(",
        1,
        "/// Returns the end of a command substitution, after its `)`, for the text that begins after its `$(`.
pub(crate) fn substitution_end(text: &str) -> Option<usize> {
    let mut scanner = subst_scan::SubstScanner::new();
    let mut chars = text.char_indices();
    let end = chars.find(|(_, c)| scanner.feed(*c) == subst_scan::Step::Close);
    end.map(|(at, c)| at + c.len_utf8())
}

pub(crate) fn parameter_subscript_end(",
    ),
    // A pattern and its replacement may contain `/` and `}` inside nested expansions.
    (
        "src/parser/mod.rs",
        "                            if ch == '\"' {
                                in_dq = !in_dq;
                            } else if !in_dq && (ch == '/' || ch == '}') {",
        1,
        "                            if crate::spans::move_expansion(chars, &mut pattern) {
                                continue;
                            }
                            if ch == '\"' {
                                in_dq = !in_dq;
                            } else if !in_dq && (ch == '/' || ch == '}') {",
    ),
    (
        "src/parser/mod.rs",
        "                                if ch == '\"' {
                                    in_dq = !in_dq;
                                } else if ch == '\\'' && !in_dq {
                                    // `\"${y/b/'}'}\"`",
        1,
        "                                if crate::spans::move_expansion(chars, &mut repl) {
                                    continue;
                                }
                                if ch == '\"' {
                                    in_dq = !in_dq;
                                } else if ch == '\\'' && !in_dq {
                                    // `\"${y/b/'}'}\"`",
    ),
    (
        "src/interpreter/expansion.rs",
        "            && (Self::has_indirect_part(word) || Self::has_prompt_part(word))",
        1,
        "            && (Self::has_indirect_part(word)
                || Self::has_prompt_part(word)
                || self.has_deep_operands(word))",
    ),
    (
        "src/interpreter/expansion.rs",
        "            let desugared = if Self::has_indirect_part(word) {",
        1,
        "            if self.has_deep_operands(word) {
                let (settled, names) = self.settle_operands(word).await?;
                let expanded = self.expand_word_inner(&settled, None).await;
                self.forget_operands(&names);
                return expanded.map(Some);
            }
            let desugared = if Self::has_indirect_part(word) {",
    ),
    (
        "src/interpreter/expansion.rs",
        "            if Self::has_indirect_part(word)
                && let Some(desugared)",
        1,
        "            if self.has_deep_operands(word) {
                let operand = std::mem::take(&mut self.decl_operand_fields);
                let (settled, names) = self.settle_operands(word).await?;
                self.decl_operand_fields = operand;
                let fields = self.expand_word_to_fields(&settled).await;
                self.forget_operands(&names);
                return fields;
            }
            if Self::has_indirect_part(word)
                && let Some(desugared)",
    ),
];
