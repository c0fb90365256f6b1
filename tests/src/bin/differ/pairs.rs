//! Counts the pairs of drawn members and values that a range of seeds has.

use dayfly_tests::differ::draw;
use dayfly_tests::differ::view::View;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Prints how many of all pairs of a configuration's members occur in one case, which do not, and the same number for
/// members with their values.
pub fn print(seeds: Range<u64>, view: View) {
    let count = seeds.clone().count();
    let (mut members, mut values) = (Pairs::default(), Pairs::default());
    for seed in seeds {
        let (mut of_members, mut of_values) = (BTreeSet::new(), BTreeSet::new());
        collect(&draw::case(seed, view)["config"], "", &mut of_members, &mut of_values);
        members.add(of_members);
        values.add(of_values);
    }
    for (one, other) in members.missing() {
        println!("no case has {one} and {other}");
    }
    println!(
        "{count} configurations, {}: {} of {} pairs of members, {} of {} pairs of values",
        view.name(),
        members.pairs.len(),
        members.all(),
        values.pairs.len(),
        values.all(),
    );
}

/// Names, and which pairs of them occur together.
#[derive(Default)]
struct Pairs {
    names: BTreeMap<String, usize>,
    pairs: BTreeSet<(usize, usize)>,
}

impl Pairs {
    fn add(&mut self, found: BTreeSet<String>) {
        let mut numbers = Vec::with_capacity(found.len());
        for name in found {
            let next = self.names.len();
            numbers.push(*self.names.entry(name).or_insert(next));
        }
        for (index, one) in numbers.iter().enumerate() {
            for other in &numbers[index + 1..] {
                self.pairs.insert((*one.min(other), *one.max(other)));
            }
        }
    }

    fn all(&self) -> usize {
        self.names.len() * self.names.len().saturating_sub(1) / 2
    }

    fn missing(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.names.iter().enumerate();
        names.flat_map(move |(index, (one, a))| {
            self.names
                .iter()
                .skip(index + 1)
                .filter(move |(_, b)| !self.pairs.contains(&(*a.min(b), *a.max(b))))
                .map(|(other, _)| (one.as_str(), other.as_str()))
        })
    }
}

/// Adds the members of a value by their paths, up to three names long, and members with their values, or with the kind of
/// a value that is drawn from many. The types of namespaces and mounts count as members.
fn collect(
    value: &Value,
    path: &str,
    members: &mut BTreeSet<String>,
    values: &mut BTreeSet<String>,
) {
    match value {
        Value::Object(all) => {
            for (name, member) in all.iter().filter(|(name, _)| !INVALID.contains(&name.as_str())) {
                let name = if name.contains('/') || name.contains('.') { "*" } else { name };
                collect(member, &format!("{path}.{name}"), members, values);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                let kind = element["type"].as_str().filter(|_| HAVE_TYPES.contains(&path));
                if let Some(kind) = kind.filter(|kind| !INVALID.contains(kind)) {
                    members.insert(format!("{path}={kind}"));
                }
                collect(element, path, members, values);
            }
        }
        Value::String(text) => _ = values.insert(format!("{path}={text}")),
        Value::Bool(is) => _ = values.insert(format!("{path}={is}")),
        _ => _ = values.insert(path.to_owned()),
    }
    let depth = path.matches('.').count();
    if depth == 3 || (1..3).contains(&depth) && !value.is_object() {
        members.insert(path.to_owned());
    }
}

/// Names that stand for invalid ones. A case has few of them, so they do not count.
const INVALID: [&str; 2] = ["bogus", "nosuchfs"];

/// Lists whose elements have types that count as members.
const HAVE_TYPES: [&str; 2] = [".mounts", ".linux.namespaces"];
