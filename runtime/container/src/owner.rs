//! Looks up user names in /etc/passwd. nscd and NSS are not used: a look-up through them takes two
//! milliseconds, too long for the owner column of `list`.

use alloc::string::{String, ToString};

/// Returns the name of `uid` in /etc/passwd. If there is none, returns the number after a `#`, as runc does.
pub(crate) fn name(uid: u32) -> String {
    if uid == 0 {
        return "root".to_string();
    }
    let text = sys::fs::read_text("/etc/passwd").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse::<u32>().ok()? == uid).then_some(name)
    });
    found.map_or_else(|| alloc::format!("#{uid}"), ToString::to_string)
}
