//! `list`: containers as a table, as JSON, or as ids only.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use container::State;

use super::table;
use crate::failure::Failure;

/// Returns the containers as a table.
pub fn table(list: &[State]) -> String {
    let title = ["ID", "PID", "STATUS", "BUNDLE", "CREATED", "OWNER"].map(String::from);
    let rows = list.iter().map(|state| {
        [
            state.id.clone(),
            state.pid.to_string(),
            state.status.to_string(),
            state.bundle.clone(),
            state.created.clone(),
            state.owner.clone(),
        ]
    });
    table::layout(&core::iter::once(title).chain(rows).collect::<Vec<_>>())
}

/// Returns the containers as one line of JSON. Without containers it is `null`, as Go prints an empty list.
///
/// # Errors
/// As [`super::json`].
pub fn json(list: &[State]) -> Result<String, Failure> {
    let mut text = super::json(&Some(list).filter(|list| !list.is_empty()))?;
    text.push('\n');
    Ok(text)
}

/// Returns the ids, one per line.
pub fn quiet(list: &[State]) -> String {
    list.iter().flat_map(|state| [state.id.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::state::tests::example;

    #[test]
    fn table_as_runc_lays_it_out() {
        assert_eq!(
            table(&[]),
            "ID          PID         STATUS      BUNDLE      CREATED     OWNER\n"
        );
        let list = [example("c1"), example("a-container-with-a-name")];
        assert_eq!(
            table(&list),
            "\
ID                        PID         STATUS      BUNDLE        CREATED                          OWNER
c1                        4242        running     /srv/bundle   2026-11-21T07:34:19.123456789Z   root
a-container-with-a-name   4242        running     /srv/bundle   2026-11-21T07:34:19.123456789Z   root
"
        );
    }

    #[test]
    fn json_as_runc_prints_it() {
        assert_eq!(json(&[]).unwrap(), "null\n");
        assert_eq!(
            json(&[example("c1")]).unwrap(),
            concat!(
                r#"[{"ociVersion":"1.3.0","id":"c1","pid":4242,"status":"running","#,
                r#""bundle":"/srv/bundle","rootfs":"/srv/bundle/rootfs","#,
                r#""created":"2026-11-21T07:34:19.123456789Z","#,
                r#""annotations":{"org.example":"<1>"},"owner":"root"}]"#,
                "\n"
            )
        );
    }

    #[test]
    fn ids() {
        assert_eq!(quiet(&[]), "");
        assert_eq!(quiet(&[example("a"), example("b")]), "a\nb\n");
    }
}
