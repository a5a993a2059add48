//! Splits Rust source into tokens and comments, each with its line.
//!
//! Not a compiler's lexer: it never rejects a file, because tidy must also read files that do not compile yet.
//! What it must get right is where strings and comments begin and end; every check relies on that.

/// What a token is; checks match on this and on its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ident,
    Lifetime,
    Number,
    /// A string, byte string, C string or raw string; the text holds the quotes.
    Text,
    Char,
    /// One character of punctuation.
    Punct,
}

/// One token with the line (from 1) and the byte (from 0) at which it starts.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
    pub(crate) start: usize,
}

impl Token {
    /// Whether this is exactly the given identifier, keyword or punctuation character.
    pub(crate) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Ident | Kind::Punct) && self.text == text
    }
}

/// How a comment was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommentKind {
    /// `//`, which speaks to maintainers.
    Line,
    /// `///` or `//!`, which speaks to users.
    Doc,
    /// `/* */` of either sort.
    Block,
}

/// One comment; `text` starts at the slashes.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) kind: CommentKind,
    pub(crate) text: String,
    pub(crate) line: usize,
    /// Nothing but white space stands before it.
    pub(crate) alone: bool,
}

impl Comment {
    /// The words without slashes, `!` and outer spaces.
    pub(crate) fn body(&self) -> &str {
        self.text.trim_start_matches('/').trim_start_matches('!').trim()
    }
}

/// Tokens and comments of one file, in order.
#[derive(Debug, Default)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Token>,
    pub(crate) comments: Vec<Comment>,
}

/// Lexes a whole file.
pub(crate) fn lex(source: &str) -> Lexed {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        starts: source.char_indices().map(|(start, _)| start).collect(),
        at: 0,
        line: 1,
        line_has_code: false,
        out: Lexed::default(),
    };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.out
}

struct Lexer {
    chars: Vec<char>,
    /// Of each character, the byte at which it starts.
    starts: Vec<usize>,
    at: usize,
    line: usize,
    line_has_code: bool,
    out: Lexed,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn step(&mut self) {
        let c = self.peek(0);
        match c {
            '\n' => {
                self.line += 1;
                self.line_has_code = false;
                self.at += 1;
            }
            _ if c.is_whitespace() => self.at += 1,
            '/' if self.peek(1) == '/' => self.line_comment(),
            '/' if self.peek(1) == '*' => self.block_comment(),
            '"' => self.text(0),
            '\'' => self.quote(),
            _ if c.is_alphabetic() || c == '_' => self.word(),
            _ if c.is_ascii_digit() => self.number(),
            _ => self.push(Kind::Punct, 1),
        }
    }

    /// Emits the next `len` characters as one token and counts the lines in it.
    fn push(&mut self, kind: Kind, len: usize) {
        let end = (self.at + len).min(self.chars.len());
        let text: String = self.chars[self.at..end].iter().collect();
        let (line, start) = (self.line, self.starts.get(self.at).copied().unwrap_or_default());
        self.line += text.matches('\n').count();
        self.at = end;
        self.line_has_code = true;
        self.out.tokens.push(Token { kind, text, line, start });
    }

    fn comment(&mut self, kind: CommentKind, len: usize) {
        let end = (self.at + len).min(self.chars.len());
        let text: String = self.chars[self.at..end].iter().collect();
        let line = self.line;
        self.line += text.matches('\n').count();
        self.at = end;
        self.out.comments.push(Comment { kind, text, line, alone: !self.line_has_code });
    }

    fn line_comment(&mut self) {
        let len = self.chars[self.at..].iter().take_while(|c| **c != '\n').count();
        let doc =
            matches!((self.peek(2), self.peek(3)), ('!', _)) || (self.peek(2) == '/' && self.peek(3) != '/');
        self.comment(if doc { CommentKind::Doc } else { CommentKind::Line }, len);
    }

    fn block_comment(&mut self) {
        let mut depth = 1;
        let mut len = 2;
        while depth > 0 && self.at + len < self.chars.len() {
            match (self.peek(len), self.peek(len + 1)) {
                ('/', '*') => (depth, len) = (depth + 1, len + 2),
                ('*', '/') => (depth, len) = (depth - 1, len + 2),
                _ => len += 1,
            }
        }
        self.comment(CommentKind::Block, len);
    }

    /// A quoted string whose opening quote lies `prefix` characters ahead; backslash escapes the next character.
    fn text(&mut self, prefix: usize) {
        let mut len = prefix + 1;
        while self.at + len < self.chars.len() && self.peek(len) != '"' {
            len += if self.peek(len) == '\\' { 2 } else { 1 };
        }
        self.push(Kind::Text, len + 1);
    }

    /// A raw string whose `r` is the last of `prefix` characters, followed by `hashes` hash signs and a quote.
    fn raw_text(&mut self, prefix: usize, hashes: usize) {
        let mut len = prefix + hashes + 1;
        while self.at + len < self.chars.len() {
            let closes = self.peek(len) == '"' && (1..=hashes).all(|i| self.peek(len + i) == '#');
            len += 1;
            if closes {
                break;
            }
        }
        self.push(Kind::Text, len + hashes);
    }

    /// A character literal or a lifetime; `'a'` and `'a` differ only in what follows.
    fn quote(&mut self) {
        if self.peek(1) == '\\' {
            let rest = &self.chars[(self.at + 3).min(self.chars.len())..];
            let tail = rest.iter().take_while(|c| **c != '\'' && **c != '\n').count();
            self.push(Kind::Char, tail + 4);
        } else if self.peek(2) == '\'' {
            self.push(Kind::Char, 3);
        } else {
            let len = 1 + self.word_len(1);
            self.push(Kind::Lifetime, len);
        }
    }

    fn word_len(&self, from: usize) -> usize {
        let start = (self.at + from).min(self.chars.len());
        self.chars[start..].iter().take_while(|c| c.is_alphanumeric() || **c == '_').count()
    }

    fn word(&mut self) {
        let len = self.word_len(0);
        let word: String = self.chars[self.at..self.at + len].iter().collect();
        let next = self.peek(len);
        if matches!(word.as_str(), "r" | "br" | "cr") && matches!(next, '"' | '#') {
            let hashes = self.chars[self.at + len..].iter().take_while(|c| **c == '#').count();
            if self.peek(len + hashes) == '"' {
                return self.raw_text(len, hashes);
            }
        }
        match (word.as_str(), next) {
            ("b" | "c", '"') => self.text(1),
            ("b", '\'') => {
                self.at += 1;
                self.quote();
            }
            ("r", '#') => {
                self.at += 2;
                self.push(Kind::Ident, self.word_len(0));
            }
            _ => self.push(Kind::Ident, len),
        }
    }

    fn number(&mut self) {
        let mut len = self.word_len(0);
        if self.peek(len) == '.' && self.peek(len + 1).is_ascii_digit() {
            len += 1 + self.word_len(len + 1);
        }
        self.push(Kind::Number, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        lex(source).tokens.into_iter().map(|t| t.text).collect()
    }

    #[test]
    fn strings_hide_what_looks_like_code() {
        assert_eq!(texts(r#"let s = "a // b \" { fn";"#), ["let", "s", "=", r#""a // b \" { fn""#, ";"]);
        assert_eq!(texts("r#\"x\"y\"# b\"z\""), ["r#\"x\"y\"#", "b\"z\""]);
    }

    #[test]
    fn lifetimes_and_characters_differ() {
        let kinds: Vec<Kind> =
            lex(r"'a' '\n' '\u{1F}' 'static b'x' '{'").tokens.iter().map(|t| t.kind).collect();
        assert_eq!(kinds, [Kind::Char, Kind::Char, Kind::Char, Kind::Lifetime, Kind::Char, Kind::Char]);
    }

    #[test]
    fn comments_keep_kind_line_and_place() {
        let lexed = lex("//! doc\nlet x = 1; // why\n/* a\n /* b */ */\n/// d\nfn f() {}\n");
        let seen: Vec<_> = lexed.comments.iter().map(|c| (c.kind, c.line, c.alone)).collect();
        use CommentKind::{Block, Doc, Line};
        assert_eq!(seen, [(Doc, 1, true), (Line, 2, false), (Block, 3, true), (Doc, 5, true)]);
        assert_eq!(lexed.tokens.last().map(|t| t.line), Some(6));
    }

    #[test]
    fn ranges_and_floats_do_not_swallow_each_other() {
        assert_eq!(texts("0..10 1.5 0xff_u8 x.0"), ["0", ".", ".", "10", "1.5", "0xff_u8", "x", ".", "0"]);
    }

    #[test]
    fn unterminated_input_ends() {
        for source in ["\"abc", "/* a", "r#\"x", "'", "'\\", "b'"] {
            assert!(lex(source).tokens.len() <= 2, "{source}");
        }
    }

    #[test]
    fn tokens_know_their_bytes() {
        let source = "let é = \"ü\"; // ö\nb'x' r#fn";
        for token in lex(source).tokens {
            assert!(source[token.start..].starts_with(&token.text), "{token:?}");
        }
    }

    #[test]
    fn multi_line_strings_count_their_lines() {
        let lexed = lex("let a = \"x\ny\";\nlet b = 1;");
        assert_eq!(lexed.tokens.iter().find(|t| t.text == "b").map(|t| t.line), Some(3));
    }
}
