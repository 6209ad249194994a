//! Positions in a TOML file, for messages.

use toml::de::{DeTable, DeValue};

/// `line 3, column 1`: position of the key path `keys` in `text`, or of the longest existing part
/// of it. Empty if the text is not TOML.
pub(crate) fn place(text: &str, keys: &[String]) -> String {
    let Ok(document) = DeTable::parse(text) else {
        return String::new();
    };
    let mut table = document.get_ref();
    let mut offset = 0;
    for key in keys {
        let Some((found, value)) = table.get_key_value(key.as_str()) else {
            break;
        };
        offset = found.span().start;
        let DeValue::Table(inner) = value.get_ref() else {
            break;
        };
        table = inner;
    }
    let before = &text[..offset];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("line {line}, column {column}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_key_that_is_there_is_found() {
        let text = "a = 1\n[b.c]\n  d = 2\n";
        let at = |keys: &[&str]| {
            let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
            place(text, &keys)
        };
        assert_eq!(at(&["a"]), "line 1, column 1");
        assert_eq!(at(&["b", "c", "d"]), "line 3, column 3");
        assert_eq!(at(&["b", "c", "x"]), "line 2, column 4");
        assert_eq!(at(&["a", "x"]), "line 1, column 1");
        assert_eq!(at(&["x"]), "line 1, column 1");
        assert_eq!(place("[", &[]), "");
    }
}
