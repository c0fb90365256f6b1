//! Counts the pairs of drawn words that a range of seeds has.

use dayfly_differ::draw;
use dayfly_differ::view::View;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Prints how many of all pairs of words occur in one case. A word is a name of a configuration's member with its value,
/// or with the value's kind if it is a number or a text that is drawn from many.
pub fn print(seeds: Range<u64>, view: View) {
    let mut words: BTreeMap<String, usize> = BTreeMap::new();
    let mut pairs: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let count = seeds.clone().count();
    for seed in seeds {
        let mut found = BTreeSet::new();
        collect(&draw::case(seed, view)["config"], "", &mut found);
        let numbers: Vec<usize> = found
            .into_iter()
            .map(|word| {
                let next = words.len();
                *words.entry(word).or_insert(next)
            })
            .collect();
        for (index, one) in numbers.iter().enumerate() {
            for other in &numbers[index + 1..] {
                *pairs.entry((*one.min(other), *one.max(other))).or_default() += 1;
            }
        }
    }
    let all = words.len() * words.len().saturating_sub(1) / 2;
    println!(
        "{count} configurations, {}: {} words, {} of {all} pairs occur",
        view.name(),
        words.len(),
        pairs.len()
    );
}

/// Adds the words of a value.
fn collect(value: &Value, path: &str, words: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let name = if name.contains('/') || name.contains('.') { "*" } else { name };
                collect(member, &format!("{path}.{name}"), words);
            }
        }
        Value::Array(elements) => elements.iter().for_each(|element| collect(element, path, words)),
        Value::String(text) => _ = words.insert(format!("{path}={text}")),
        Value::Bool(is) => _ = words.insert(format!("{path}={is}")),
        _ => _ = words.insert(path.to_owned()),
    }
}
