//! Compiles a profile to a program: a balanced decision tree over ranges of system call numbers.
//!
//! When a filter is loaded, the kernel emulates it for every system call number, to find the numbers that the filter
//! always allows. So the average path length and the size of the program matter, but the order of the rules does not.
//! Adjacent numbers with the same verdict form one range. A single number with another verdict is tested after the
//! range around it is found.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use sys::raw::halves;

use crate::arch::{X32_BIT, multiplexed_on_x86};
use crate::profile::{Operator, Profile, Rule, action};
use crate::program::{
    AND, Builder, JUMP_EQUAL, JUMP_GREATER, JUMP_GREATER_OR_EQUAL, LOAD, Label, Program,
};
use crate::{Arch, Error};

/// SECCOMP_RET_KILL_THREAD: libseccomp's action for calls of architectures that the profile does not list.
const KILL_THREAD: u32 = 0;
/// SECCOMP_RET_ERRNO | ENOSYS
const NO_SUCH_CALL: u32 = 0x0005_0026;
/// BPF_MAXINSNS
const LONGEST: usize = 4096;
/// The maximum number of exceptions in a range of system call numbers that are tested one after
/// another. An exception is a single number whose verdict differs from that of the range.
const LONE: usize = 3;
/// The offsets of fields in `struct seccomp_data`.
const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

/// The system for which a profile is compiled.
#[derive(Debug, Clone)]
pub struct Support {
    /// The architecture that is always covered.
    pub native: Arch,
}

impl Default for Support {
    fn default() -> Self {
        Self { native: Arch::NATIVE }
    }
}

/// A condition on one argument of a system call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Condition {
    index: u32,
    operator: Operator,
    value: u64,
    second: u64,
}

/// The verdict for one system call number.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    /// The filter always returns this value, whatever the arguments are.
    Always(u32),
    /// The filter returns the value of the first alternative whose conditions are all true, or the default if there is
    /// none.
    If(Vec<(Vec<Condition>, u32)>),
}

/// What a rule does with its calls, if this is not the default action.
#[derive(Debug)]
struct Effect {
    /// The rule's conditions: each alternative is a list of conditions that must all be true. A rule without conditions
    /// has an alternative without conditions.
    alternatives: Vec<Vec<Condition>>,
    /// The value that the filter returns.
    value: u32,
}

/// The rules for all calls with one audit token.
#[derive(Debug, Default)]
struct Numbers {
    /// System call numbers, each with the index of an effect.
    added: Vec<(u32, u32)>,
    /// Whether x32 is covered. Its numbers are above those of x86_64.
    x32: bool,
    /// The highest number that any rule names, whatever the rule's action, on any architecture except x32; `last_x32`
    /// is the same for x32.
    last: Option<u32>,
    last_x32: Option<u32>,
}

/// Compiles a profile.
///
/// # Errors
/// If the profile contains an unknown name, which the error includes; if the program is too long for the kernel.
pub fn compile(profile: &Profile<'_>, support: &Support) -> Result<Program, Error> {
    let flags = profile.flags()?;
    let default = action(&profile.default_action, profile.default_errno_ret)?;
    let archs = profile.architectures(support.native)?;
    let mut tables: BTreeMap<u32, Numbers> = BTreeMap::new();
    for arch in &archs {
        tables.entry(arch.token()).or_default().x32 |= *arch == Arch::X32;
    }
    let mut effects = Vec::new();
    for rule in profile.rules() {
        add_rule(&mut tables, &mut effects, &archs, rule, default)?;
    }
    let beyond = beyond(default);
    let mut builder = Builder::default();
    let mut entries = Vec::with_capacity(tables.len());
    for (token, table) in tables.iter_mut().rev() {
        let tree = table.tree(&effects, *token, default, beyond, &mut builder)?;
        builder.fall_to(tree);
        entries.push((*token, builder.push(LOAD, OFFSET_NR)));
    }
    let mut next = builder.ret(KILL_THREAD);
    // The program is generated backwards: the native architecture comes last in this list, so that
    // the program tests it first.
    entries.sort_by_key(|(token, _)| *token == support.native.token());
    for (token, entry) in entries {
        next = builder.branch(JUMP_EQUAL, token, entry, next);
    }
    builder.fall_to(next);
    builder.push(LOAD, OFFSET_ARCH);
    let filter = builder.finish();
    if filter.len() > LONGEST {
        return Err(Error(format!(
            "seccomp profile compiles to {} instructions; the kernel accepts {LONGEST}",
            filter.len()
        )));
    }
    Ok(Program { filter, flags })
}

fn add_rule(
    tables: &mut BTreeMap<u32, Numbers>,
    effects: &mut Vec<Effect>,
    archs: &[Arch],
    rule: &Rule<'_>,
    default: u32,
) -> Result<(), Error> {
    let value = action(&rule.action, rule.errno_ret)?;
    let alternatives = alternatives(rule)?;
    // The effects through multiplexers come after the rule's own effect.
    let mut through = Vec::new();
    let effect = effects.len();
    for call in &rule.calls.known {
        for &arch in archs {
            let Some(table) = tables.get_mut(&arch.token()) else { continue };
            let number = call.on(arch);
            let multiplexed =
                if arch == Arch::X86 { multiplexed_on_x86(call.name()) } else { None };
            for number in number.into_iter().chain(multiplexed.map(|(number, _)| number)) {
                table.extend_to(number);
            }
            // As in runc, a rule whose action is the default action is skipped: it has no effect, and must not hide a
            // later rule.
            if value == default {
                continue;
            }
            if let Some(number) = number {
                table.add(number, effect);
            }
            if let Some((number, call)) = multiplexed {
                through.push(Effect { alternatives: behind(&alternatives, call), value });
                table.add(number, effect + through.len());
            }
        }
    }
    effects.push(Effect { alternatives, value });
    effects.append(&mut through);
    Ok(())
}

/// Returns the action for calls that are newer than the profile: the calls above the highest number that the profile
/// names. With the default action of a profile that denies by default, such a call would fail with EPERM or worse. But
/// C libraries fall back to an older call only if the error is ENOSYS (runc's libcontainer/seccomp/patchbpf). If the
/// default action allows calls, or passes them to a tracer, the default action applies.
fn beyond(default: u32) -> u32 {
    const TRACE: u32 = 0x7ff0_0000;
    // Compared as signed numbers, TRACE, LOG and ALLOW are the highest, and KILL_PROCESS is negative.
    match default & 0xffff_0000 {
        TRACE..0x8000_0000 => default,
        _ => NO_SUCH_CALL,
    }
}

/// Returns a rule's conditions as alternatives. Conditions on different arguments must all be true, so they form one
/// alternative. If there are several conditions on the same argument, each condition of the rule is a separate
/// alternative, as in runc.
fn alternatives(rule: &Rule<'_>) -> Result<Vec<Vec<Condition>>, Error> {
    let mut conditions = Vec::with_capacity(rule.args().len());
    for argument in rule.args() {
        if argument.index > 5 {
            let index = argument.index;
            return Err(Error(format!(
                "seccomp argument index {index}: there are arguments 0 to 5"
            )));
        }
        conditions.push(Condition {
            index: argument.index,
            operator: argument.operator()?,
            value: argument.value,
            second: argument.value_two,
        });
    }
    let repeated = conditions.iter().enumerate().any(|(at, condition)| {
        conditions.iter().take(at).any(|earlier| earlier.index == condition.index)
    });
    Ok(match repeated {
        true => conditions.into_iter().map(|condition| alloc::vec![condition]).collect(),
        false => alloc::vec![conditions],
    })
}

/// Returns the alternatives of a rule for the multiplexer socketcall(2) or ipc(2), whose first argument selects the
/// call. Conditions on the first argument of the selected call are dropped, as by libseccomp, because the multiplexer's
/// first argument has a different meaning.
fn behind(alternatives: &[Vec<Condition>], call: u64) -> Vec<Vec<Condition>> {
    let which = Condition { index: 0, operator: Operator::Equal, value: call, second: 0 };
    let rest = |conditions: &Vec<Condition>| {
        let others = conditions.iter().filter(|condition| condition.index != 0).copied();
        core::iter::once(which).chain(others).collect()
    };
    alternatives.iter().map(rest).collect()
}

impl Numbers {
    /// Adds the effect with this index for a number.
    fn add(&mut self, number: u32, effect: usize) {
        self.added.push((number, u32::try_from(effect).unwrap_or(u32::MAX)));
    }

    /// Records that a rule of the profile names `number`.
    fn extend_to(&mut self, number: u32) {
        let last = if number & X32_BIT == 0 { &mut self.last } else { &mut self.last_x32 };
        *last = (*last).max(Some(number));
    }

    /// Returns the ranges of numbers, each with its first number and its verdict, from number 0 on. `added` is sorted.
    fn ranges(
        &self,
        effects: &[Effect],
        token: u32,
        default: u32,
        beyond: u32,
    ) -> Vec<(u32, Verdict)> {
        let mut ranges: Vec<(u32, Verdict)> = alloc::vec![(0, Verdict::Always(default))];
        let mut put = |from: u32, verdict: Verdict| match ranges.last_mut() {
            Some((last, known)) if *last == from => *known = verdict,
            Some((_, known)) if *known == verdict => {}
            _ => ranges.push((from, verdict)),
        };
        // If x32 is not covered, its numbers are treated like those of an architecture that is not covered.
        let split = token == Arch::X86_64.token();
        let closed = split && !self.x32;
        let of_x32 = self.added.partition_point(|(number, _)| *number < X32_BIT);
        let (added, of_x32) = self.added.split_at(of_x32);
        for (number, verdict) in verdicts(added, effects) {
            put(number, verdict);
            put(number + 1, Verdict::Always(default));
        }
        if let Some(last) = self.last {
            put(last + 1, Verdict::Always(beyond));
        }
        if split {
            put(X32_BIT, Verdict::Always(default));
        }
        for (number, verdict) in verdicts(of_x32, effects) {
            put(number, verdict);
            put(number.saturating_add(1), Verdict::Always(default));
        }
        if let Some(last) = self.last_x32 {
            put(last.saturating_add(1), Verdict::Always(beyond));
        }
        if closed {
            put(X32_BIT, Verdict::Always(KILL_THREAD));
            // The number −1 is not a call: a tracer uses it to skip calls.
            put(u32::MAX, Verdict::Always(default));
        }
        // Adjacent ranges with the same verdict are one range.
        ranges.dedup_by(|next, last| next.1 == last.1);
        ranges
    }

    fn tree(
        &mut self,
        effects: &[Effect],
        token: u32,
        default: u32,
        beyond: u32,
        builder: &mut Builder,
    ) -> Result<Label, Error> {
        self.added.sort_unstable();
        let ranges = self.ranges(effects, token, default, beyond);
        let mut groups = Vec::with_capacity(ranges.len());
        let mut rest = ranges.as_slice();
        while !rest.is_empty() {
            let (group, others) = rest.split_at(first_group(rest).len());
            groups.push(group);
            rest = others;
        }
        let compiler = Tree { token, default };
        compiler.node(&groups, builder)
    }
}

/// Returns the verdict of each number in `added`, which is sorted.
fn verdicts(added: &[(u32, u32)], effects: &[Effect]) -> impl Iterator<Item = (u32, Verdict)> {
    let same = added.chunk_by(|(number, _), (next, _)| number == next);
    same.filter_map(|rules| {
        let (number, _) = rules.first()?;
        let indices = rules.iter().map(|(_, effect)| *effect as usize);
        Some((*number, verdict(indices.filter_map(|at| effects.get(at)))))
    })
}

/// Returns the verdict of the rules for one number. As in libseccomp, a rule without conditions overrides rules with
/// conditions, and if there are several rules without conditions, the first one applies.
fn verdict<'e>(effects: impl Iterator<Item = &'e Effect>) -> Verdict {
    let mut known = Vec::new();
    for Effect { alternatives, value } in effects {
        if alternatives.iter().any(Vec::is_empty) {
            return Verdict::Always(*value);
        }
        known.extend(alternatives.iter().map(|conditions| (conditions.clone(), *value)));
    }
    Verdict::If(known)
}

/// Returns the first of `ranges`, together with single numbers inside it that have another verdict. A test for equality
/// with a single number takes one comparison; as a range of its own, the number would take two.
fn first_group(ranges: &[(u32, Verdict)]) -> &[(u32, Verdict)] {
    let [(_, verdict @ Verdict::Always(_)), rest @ ..] = ranges else {
        return ranges.get(..1).unwrap_or(ranges);
    };
    let (pairs, _) = rest.as_chunks::<2>();
    let lone = |[(number, _), (next, then)]: &&[(u32, Verdict); 2]| {
        number.checked_add(1) == Some(*next) && then == verdict
    };
    let lone = pairs.iter().take(LONE).take_while(lone).count();
    ranges.get(..1 + 2 * lone).unwrap_or(ranges)
}

/// Compiles the ranges of numbers for one audit token.
struct Tree {
    token: u32,
    default: u32,
}

impl Tree {
    /// Returns the code for groups of ranges. When this code is entered, the system call number is already loaded.
    fn node(&self, groups: &[&[(u32, Verdict)]], builder: &mut Builder) -> Result<Label, Error> {
        match groups {
            [] => Ok(builder.ret(self.default)),
            [group] => Ok(self.group(group, builder)),
            _ => {
                let (lower, upper) = groups.split_at(groups.len() / 2);
                let middle = upper.first().and_then(|group| group.first());
                let middle = middle.map_or(0, |(from, _)| *from);
                let yes = self.node(upper, builder)?;
                let no = self.node(lower, builder)?;
                // The code of the lower half now lies between the jump and the return instruction of the upper half,
                // which may be out of the jump's reach. So another return instruction may be added.
                let yes = match upper {
                    [[(_, Verdict::Always(value))]] => builder.ret(*value),
                    _ => yes,
                };
                Ok(builder.branch(JUMP_GREATER_OR_EQUAL, middle, yes, no))
            }
        }
    }

    /// Returns the code for a range, including the single numbers in it.
    fn group(&self, group: &[(u32, Verdict)], builder: &mut Builder) -> Label {
        let [(from, verdict), rest @ ..] = group else { return builder.ret(self.default) };
        let mut next = self.leaf(*from, verdict, builder);
        for (number, exception) in rest.iter().step_by(2) {
            let yes = self.leaf(*number, exception, builder);
            next = builder.branch(JUMP_EQUAL, *number, yes, next);
        }
        next
    }

    fn leaf(&self, number: u32, verdict: &Verdict, builder: &mut Builder) -> Label {
        let alternatives = match verdict {
            Verdict::Always(value) => return builder.ret(*value),
            Verdict::If(alternatives) => alternatives,
        };
        let x32 = self.token == Arch::X32.token() && number >= X32_BIT;
        let arch = Arch::ALL.into_iter().find(|arch| arch.token() == self.token);
        let wide = !x32 && arch.is_none_or(Arch::wide_arguments);
        let mut next = builder.ret(self.default);
        for (conditions, value) in alternatives.iter().rev() {
            let mut then = builder.ret(*value);
            for condition in conditions.iter().rev() {
                then = condition.compile(wide, then, next, builder);
            }
            next = then;
        }
        next
    }
}

impl Condition {
    /// Returns the code that jumps to `yes` if the condition is true, and otherwise to `no`.
    fn compile(self, wide: bool, yes: Label, no: Label, builder: &mut Builder) -> Label {
        let value = match self.operator {
            // Like libseccomp, ignores the bits of the value that are not in the mask.
            Operator::MaskedEqual => self.second & self.value,
            _ => self.value,
        };
        let mask = match self.operator {
            Operator::MaskedEqual => self.value,
            _ => u64::MAX,
        };
        let (yes, no, comparison) = match self.operator {
            Operator::Equal | Operator::MaskedEqual => (yes, no, JUMP_EQUAL),
            Operator::NotEqual => (no, yes, JUMP_EQUAL),
            Operator::Greater => (yes, no, JUMP_GREATER),
            Operator::LessOrEqual => (no, yes, JUMP_GREATER),
            Operator::GreaterOrEqual => (yes, no, JUMP_GREATER_OR_EQUAL),
            Operator::Less => (no, yes, JUMP_GREATER_OR_EQUAL),
        };
        let offset = OFFSET_ARGS + 8 * self.index;
        let ([low_mask, high_mask], [low, high]) = (halves(mask), halves(value));
        let low = compare_word(builder, offset, low_mask, comparison, low, yes, no);
        if !wide {
            return low;
        }
        if comparison == JUMP_EQUAL {
            return compare_word(builder, offset + 4, high_mask, JUMP_EQUAL, high, low, no);
        }
        let equal = builder.branch(JUMP_EQUAL, high, low, no);
        builder.branch(JUMP_GREATER, high, yes, equal);
        builder.push(LOAD, offset + 4)
    }
}

/// Adds code that loads half of an argument, masks it, and compares it.
fn compare_word(
    builder: &mut Builder,
    offset: u32,
    mask: u32,
    comparison: u16,
    value: u32,
    yes: Label,
    no: Label,
) -> Label {
    let test = builder.branch(comparison, value, yes, no);
    builder.fall_to(test);
    if mask != u32::MAX {
        builder.push(AND, mask);
    }
    builder.push(LOAD, offset)
}
