//! Tests the assembled program by interpreting it, and compares the result with the semantics of the rules.

use super::*;
use crate::devices::DEFAULT_RULES;
use proptest::collection::vec;
use proptest::prelude::*;

/// Runs a program for one access, like the kernel. Panics if the kernel's verifier would reject the program.
fn run(program: &[Instruction], kind: u32, access: u32, major: u32, minor: u32) -> bool {
    let mut registers = [None; 11];
    registers[CONTEXT as usize] = Some(u64::MAX);
    let mut at = 0;
    loop {
        let Instruction { code, registers: operands, offset, immediate } = program[at];
        let destination = (operands & 15) as usize;
        let value = |registers: &[Option<u64>; 11]| registers[destination].expect("read unset");
        let extended = i64::from(immediate).cast_unsigned();
        at += 1;
        match code {
            LOAD_WORD => {
                assert_eq!(operands >> 4, CONTEXT);
                let word = match offset {
                    0 => access << 16 | kind,
                    4 => major,
                    8 => minor,
                    _ => panic!("load outside of the context"),
                };
                registers[destination] = Some(u64::from(word));
            }
            AND => registers[destination] = Some(value(&registers) & extended),
            SHIFT_RIGHT => registers[destination] = Some(value(&registers) >> immediate),
            SET => registers[destination] = Some(extended),
            JUMP => at = at.checked_add_signed(offset.into()).unwrap(),
            JUMP_IF_NOT_EQUAL if value(&registers) != extended => {
                at = at.checked_add_signed(offset.into()).unwrap();
            }
            JUMP_IF_ANY_BIT if value(&registers) & extended != 0 => {
                at = at.checked_add_signed(offset.into()).unwrap();
            }
            JUMP_IF_NOT_EQUAL | JUMP_IF_ANY_BIT => {}
            EXIT => return registers[RESULT as usize].expect("no result") != 0,
            _ => panic!("unknown operation {code:#x}"),
        }
    }
}

/// Evaluates the rules according to the semantics described in [`crate::devices`].
fn is_allowed(rules: &[Rule], kind: DeviceKind, access: Access, major: u32, minor: u32) -> bool {
    [Access::MKNOD, Access::READ, Access::WRITE]
        .into_iter()
        .filter(|one| access.contains(*one))
        .all(|one| {
            rules.iter().fold(false, |allowed, rule| {
                let speaks = rule.kind == DeviceKind::All
                    || (rule.kind == kind
                        && rule.access.contains(one)
                        && rule.major.is_none_or(|number| number == major)
                        && rule.minor.is_none_or(|number| number == minor));
                if speaks { rule.allow } else { allowed }
            })
        })
}

fn access() -> impl Strategy<Value = Access> {
    (1..=7u8).prop_map(Access::from_bits_retain)
}

fn rule() -> impl Strategy<Value = Rule> {
    let kind = prop_oneof![
        1 => Just(DeviceKind::All),
        4 => Just(DeviceKind::Block),
        4 => Just(DeviceKind::Char),
    ];
    // Only a few different numbers are generated, so that rules overlap. u32::MAX is among them, because a wrong
    // comparison could confuse it with other numbers.
    let number =
        || prop_oneof![2 => Just(None), 4 => (0..3u32).prop_map(Some), 1 => Just(Some(u32::MAX))];
    (any::<bool>(), kind, number(), number(), access())
        .prop_map(|(allow, kind, major, minor, access)| Rule { allow, kind, major, minor, access })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn program_means_what_the_rules_mean(rules in vec(rule(), 0..10)) {
        let program = assemble(&rules);
        prop_assert_eq!(&program, &assemble(&rules));
        let mut all = true;
        for (kind, number) in [(DeviceKind::Block, BLOCK as u32), (DeviceKind::Char, CHAR as u32)] {
            for (major, minor) in (0..4).flat_map(|major| (0..4).map(move |minor| (major, minor))) {
                for bits in 1..=7 {
                    let expected = is_allowed(&rules, kind, Access::from_bits_retain(bits), major, minor);
                    let got = run(&program, number, bits.into(), major, minor);
                    prop_assert_eq!(expected, got, "{:?} {}:{} {}", kind, major, minor, bits);
                    all &= expected;
                }
            }
        }
        prop_assert!(all || !allows_everything(&rules));
    }

    #[test]
    fn v1_means_the_same_where_it_can_say_it(rules in vec(rule(), 0..8)) {
        if let Ok((allow, exceptions)) = crate::devices::legacy::tests::policy_of(&rules) {
            let everything = Rule {
                allow, kind: DeviceKind::All, major: None, minor: None, access: Access::ALL,
            };
            let written: Vec<_> = std::iter::once(everything).chain(exceptions).collect();
            for kind in [DeviceKind::Block, DeviceKind::Char] {
                for (major, minor) in (0..4).flat_map(|a| (0..4).map(move |b| (a, b))) {
                    for one in [Access::MKNOD, Access::READ, Access::WRITE] {
                        prop_assert_eq!(
                            is_allowed(&rules, kind, one, major, minor),
                            is_allowed(&written, kind, one, major, minor)
                        );
                    }
                }
            }
        }
    }
}

fn defaults() -> Vec<Rule> {
    DEFAULT_RULES.iter().map(|(_, rule)| *rule).collect()
}

#[test]
fn default_devices() {
    let everything =
        Rule { allow: false, kind: DeviceKind::All, major: None, minor: None, access: Access::ALL };
    let rules: Vec<_> = std::iter::once(everything).chain(defaults()).collect();
    let program = assemble(&rules);
    assert!(run(&program, CHAR as u32, 6, 1, 3), "/dev/null");
    assert!(run(&program, CHAR as u32, 6, 136, 7), "/dev/pts/7");
    assert!(run(&program, BLOCK as u32, 1, 8, 0), "mknod sda");
    assert!(!run(&program, BLOCK as u32, 2, 8, 0), "read sda");
    assert!(!run(&program, CHAR as u32, 2, 1, 1), "/dev/mem");
}

#[test]
fn engines_repeat_the_defaults_and_the_program_does_not() {
    let twice: Vec<_> = defaults().into_iter().chain(defaults()).collect();
    assert_eq!(assemble(&twice), assemble(&defaults()));
}

#[test]
fn a_privileged_container_needs_no_program() {
    let everything =
        Rule { allow: true, kind: DeviceKind::All, major: None, minor: None, access: Access::ALL };
    let rules: Vec<_> = std::iter::once(everything).chain(defaults()).collect();
    assert!(allows_everything(&rules));
    assert!(!allows_everything(&[]));
    assert_eq!(assemble(&rules).len(), 8);
}
