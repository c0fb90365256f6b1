//! The order of the functions in a program: the section [`SECTION`] contains the functions that commands execute.
//!
//! A program's file `order` lists these functions, and `runtime/build.rs` tells the linker to put them beside each
//! other. The file contains patterns, because the name of a function contains hashes, which every compiler chooses
//! anew: `_ZN4core3fmt5write17h*E`.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::ops::Range;
use std::path::Path;

/// The section of the functions that commands execute.
pub const SECTION: &str = ".text.start";

/// The maximum size of the functions that match a pattern, in percent of those that commands execute. The other patterns
/// come last: instances of generic functions share a name.
const SHARED: u64 = 120;

/// A program's sections and symbols.
pub struct Program {
    ordered: Option<Range<u64>>,
    other: Option<Range<u64>>,
    /// The functions by address, with their sizes in bytes. Empty if the program is stripped.
    functions: BTreeMap<u64, (u64, String)>,
}

/// The addresses of the instructions that a command executed, in the order of their first execution.
pub type Addresses = Vec<u64>;

impl Program {
    /// Reads an ELF file.
    ///
    /// # Panics
    /// If the file cannot be read.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        let data = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = object::File::parse(&*data).expect("an ELF file");
        let range = |name| {
            let section = file.section_by_name(name)?;
            Some(section.address()..section.address() + section.size())
        };
        let functions = file
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some((symbol.address(), (symbol.size(), name)))
            })
            .collect();
        Self { ordered: range(SECTION), other: range(".text"), functions }
    }

    /// Returns the share of the program's instructions that are in the section [`SECTION`], in percent; `None` without
    /// that section. Other programs, such as a shell, have other addresses.
    #[must_use]
    pub fn ordered(&self, executed: &Addresses) -> Option<usize> {
        let section = self.ordered.as_ref()?;
        let count = |range: &Range<u64>| executed.iter().filter(|at| range.contains(at)).count();
        let (there, elsewhere) = (count(section), self.other.as_ref().map_or(0, count));
        Some(there * 100 / (there + elsewhere).max(1))
    }

    /// Returns the function that contains an address.
    fn function(&self, address: u64) -> Option<&(u64, String)> {
        let (start, function) = self.functions.range(..=address).next_back()?;
        (address < start + function.0).then_some(function)
    }

    /// Returns the patterns of the functions that these commands executed: first those that most commands executed, in
    /// the order of their first execution. Patterns of an earlier list that match no function of this program follow:
    /// the compiler has inlined these functions, but other builds may have them.
    ///
    /// # Panics
    /// If the program is stripped.
    #[must_use]
    pub fn order<'a>(
        &self,
        commands: &[Addresses],
        before: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        assert!(!self.functions.is_empty(), "a program without symbols: see scripts/order");
        // By function: the commands that executed it, and the time of its first execution.
        let mut used: HashMap<&str, (BTreeSet<usize>, (usize, usize))> = HashMap::new();
        let mut executed: HashMap<String, u64> = HashMap::new();
        for (command, addresses) in commands.iter().enumerate() {
            for (time, address) in addresses.iter().enumerate() {
                let Some((size, name)) = self.function(*address) else { continue };
                let use_ = used.entry(name).or_insert_with(|| {
                    *executed.entry(pattern(name)).or_default() += size;
                    (BTreeSet::new(), (command, time))
                });
                use_.0.insert(command);
            }
        }
        let mut functions: Vec<_> = used.into_iter().collect();
        functions.sort_by_key(|(_, (commands, first))| {
            (std::cmp::Reverse(commands.len()), commands.clone(), *first)
        });
        let mut matching: HashMap<String, u64> = HashMap::new();
        for (size, name) in self.functions.values() {
            *matching.entry(pattern(name)).or_default() += size;
        }
        let mut seen = HashSet::new();
        let patterns = functions.into_iter().map(|(name, _)| pattern(name));
        let patterns: Vec<String> = patterns.filter(|name| seen.insert(name.clone())).collect();
        let is_own = |name: &String| matching[name] * 100 <= executed[name] * SHARED;
        let (mut own, mut shared): (Vec<_>, Vec<_>) = patterns.into_iter().partition(is_own);
        shared.sort_by_key(|name| matching[name] * 100 / executed[name].max(1));
        own.extend(before.filter(|name| !matching.contains_key(*name)).map(str::to_owned));
        own.append(&mut shared);
        own
    }
}

/// Returns the name of a function with `*` in place of its hashes. The compiler has two ways to write a hash: at the end
/// of a name, and before the name of a crate.
fn pattern(name: &str) -> String {
    // The linker gives symbols of equal names from several units a suffix.
    let name = name.split(".llvm.").next().unwrap_or(name);
    if let Some(end) = name.rfind("17h").filter(|_| name.starts_with("_ZN")) {
        return format!("{}17h*E", &name[..end]);
    }
    let mut parts = name.split("Cs");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_hash = |end: &usize| {
            *end < 13 && part[end + 1..].starts_with(|byte: char| byte.is_ascii_digit())
        };
        match part.find('_').filter(is_hash) {
            Some(end) => text.extend(["Cs*", &part[end..]]),
            None => text.extend(["Cs", part]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_has_no_hash() {
        assert_eq!(pattern("memcpy"), "memcpy");
        assert_eq!(pattern("_ZN4core3fmt5write17h0123456789abcdefE"), "_ZN4core3fmt5write17h*E");
        assert_eq!(
            pattern("_ZN4core3fmt5write17h0123456789abcdefE.llvm.42"),
            "_ZN4core3fmt5write17h*E"
        );
        assert_eq!(pattern("_RNvNtCsgEmfK2I1SDS_4core3fmt5write"), "_RNvNtCs*_4core3fmt5write");
        assert_eq!(pattern("_RNvCs_7CsAbc_name"), "_RNvCs*_7CsAbc_name");
    }

    fn program() -> Program {
        let function = |address, size, name: &str| (address, (size, name.to_owned()));
        let functions = [
            function(100, 10, "_ZN1a17h0000000000000001E"),
            function(110, 10, "_ZN1b17h0000000000000002E"),
            function(120, 90, "_ZN1b17h0000000000000003E"),
            function(300, 10, "c"),
        ];
        Program { ordered: Some(100..210), other: Some(210..400), functions: functions.into() }
    }

    #[test]
    fn functions_of_most_commands_come_first() {
        let order = program()
            .order(&[vec![105, 250, 300], vec![301, 112], vec![302]], ["c", "inlined"].into_iter());
        assert_eq!(order, ["c", "_ZN1a17h*E", "inlined", "_ZN1b17h*E"]);
    }

    #[test]
    fn counts_the_instructions_in_the_section() {
        assert_eq!(program().ordered(&vec![100, 209, 210, 300, 999]), Some(50));
        assert_eq!(Program { ordered: None, ..program() }.ordered(&vec![100]), None);
    }
}
