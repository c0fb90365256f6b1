//! Mount options, one per line.

use spec::Str;
use spec::mount_options::MountOptions;

/// Checks that options are sorted into flags and words, and that no word is lost.
pub fn target(data: &[u8]) {
    let Some(texts) = crate::texts(data) else { return };
    let options: Vec<Str<'_>> = texts.iter().map(|text| (*text).into()).collect();
    let parsed = MountOptions::parse(&options);
    for (key, _) in texts.iter().filter_map(|text| text.split_once('=')) {
        let _ = parsed.value(key);
    }
    assert!(parsed.superblock_words().all(|word| !word.is_empty()));
    // If all options are given twice, the number of superblock words stays the same.
    let words = parsed.superblock_words().count();
    let twice: Vec<_> = options.iter().chain(&options).cloned().collect();
    assert_eq!(MountOptions::parse(&twice).superblock_words().count(), words);
    for text in texts {
        let _ = spec::NumberSet::parse(text);
    }
}
