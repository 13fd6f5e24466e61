//! Keys of roles, covered by tests of the pipeline.

use super::Shown;

const ROLES: &str = "host/core/src/pipeline/tests/roles.rs";
const RULES: &str = "role_rules_have_every_key";

pub(super) const SHOWN: &[Shown] = &[
    (
        "roles.*.groups",
        ROLES,
        "role_follows_the_groups_in_the_order_of_the_file",
    ),
    (
        "roles.*.tools.allow",
        ROLES,
        "role_lists_restrict_the_tools",
    ),
    ("roles.*.tools.deny", ROLES, "role_lists_restrict_the_tools"),
    (
        "roles.*.budget.callsPerMinute",
        ROLES,
        "role_budget_counts_the_calls_of_each_user",
    ),
    ("roles.*.rules[].name", ROLES, RULES),
    ("roles.*.rules[].tools", ROLES, RULES),
    ("roles.*.rules[].groups", ROLES, RULES),
    ("roles.*.rules[].sources", ROLES, RULES),
    ("roles.*.rules[].decision", ROLES, RULES),
    ("roles.*.rules[].reason", ROLES, RULES),
    ("roles.*.rules[].match", ROLES, RULES),
    ("roles.*.rules[].noMatch", ROLES, RULES),
    ("roles.*.rules[].when.*.glob", ROLES, RULES),
    ("roles.*.rules[].when.*.regex", ROLES, RULES),
    ("roles.*.rules[].when.*.equals", ROLES, RULES),
    ("roles.*.rules[].when.*.min", ROLES, RULES),
    ("roles.*.rules[].when.*.max", ROLES, RULES),
    ("roles.*.rules[].when.*.inside", ROLES, RULES),
    ("roles.*.rules[].when.*.exists", ROLES, RULES),
    ("roles.*.rules[].when.*.not", ROLES, RULES),
];
