//! Lines of texts in columns, for screens of any width.

use ratatui::text::Line;

use crate::cli::print::{self, Piece, Tone};

/// Columns on the left of every line.
const INDENT: usize = 2;
/// Columns between two texts.
const GAP: usize = 2;
/// A column of this width is not cut further.
const NARROW: usize = 6;

/// Rows as lines. Each column is as wide as its longest text. Where they do not fit on the screen, the widest columns
/// are cut.
pub(in crate::cli) fn columns(rows: Vec<Vec<Piece>>, screen: Option<usize>) -> Vec<Vec<Piece>> {
    let rows: Vec<Vec<Piece>> = rows.into_iter().map(|row| row.into_iter().map(one_line).collect()).collect();
    let mut widths: Vec<usize> = Vec::new();
    for row in &rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (widest, piece) in widths.iter_mut().zip(row) {
            *widest = width(&piece.text).max(*widest);
        }
    }
    if let Some(screen) = screen {
        shrink(&mut widths, screen.saturating_sub(INDENT));
    }
    rows.into_iter().map(|row| line(row, &widths)).collect()
}

fn one_line(piece: Piece) -> Piece {
    Piece { text: print::plain(&piece.text.replace(['\n', '\t'], " ")).into_owned(), ..piece }
}

fn width(text: &str) -> usize {
    Line::raw(text).width()
}

fn shrink(widths: &mut [usize], room: usize) {
    let gaps = widths.len().saturating_sub(1).saturating_mul(GAP);
    while widths.iter().sum::<usize>().saturating_add(gaps) > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROW => *widest = widest.saturating_sub(1),
            _ => return,
        }
    }
}

fn line(row: Vec<Piece>, widths: &[usize]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut blank = INDENT;
    for (piece, column) in row.into_iter().zip(widths) {
        let piece = Piece { text: cut(&piece.text, *column), ..piece };
        let used = width(&piece.text);
        if used > 0 {
            pieces.push(Piece::of(" ".repeat(blank), Tone::Plain));
            pieces.push(piece);
            blank = 0;
        }
        blank = blank.saturating_add(column.saturating_sub(used)).saturating_add(GAP);
    }
    pieces
}

/// The beginning of a text that fits into a column.
pub(super) fn cut(text: &str, column: usize) -> String {
    if width(text) <= column {
        return text.to_owned();
    }
    let mut shown = String::new();
    for c in text.chars() {
        shown.push(c);
        if width(&shown) >= column {
            shown.pop();
            break;
        }
    }
    format!("{}…", shown.trim_end())
}

/// A text in lines of at most this width, unless a word is longer. The first one has a marker.
pub(in crate::cli) fn paragraph(text: &str, screen: Option<usize>) -> Vec<String> {
    let room = screen.map_or(usize::MAX, |screen| screen.saturating_sub(INDENT.saturating_mul(2)));
    let mut lines: Vec<String> = Vec::new();
    for word in print::plain(text).split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line).saturating_add(width(word)) < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    let marked =
        lines.into_iter().enumerate().map(|(at, line)| format!("{} {line}", if at == 0 { "  -" } else { "   " }));
    marked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &[Piece]) -> String {
        print::painted(line, false)
    }

    #[test]
    fn the_widest_columns_are_cut_to_fit_the_screen() {
        let row = |texts: [&str; 3]| texts.map(|text| Piece::plain(text.to_owned())).to_vec();
        let rows = vec![row(["ap1", "a rather long text in the middle", "in 5m"]), row(["ap10", "短い\n文", ""])];
        let whole: Vec<String> = columns(rows.clone(), None).iter().map(|line| text(line)).collect();
        assert_eq!(whole, ["  ap1   a rather long text in the middle  in 5m", "  ap10  短い 文"]);
        let narrow: Vec<String> = columns(rows.clone(), Some(30)).iter().map(|line| text(line)).collect();
        assert_eq!(narrow, ["  ap1   a rather long…   in 5m", "  ap10  短い 文"]);
        for screen in 0..60 {
            let room = screen.max(2 + 4 + 2 + 6 + 2 + 5);
            for line in columns(rows.clone(), Some(screen)) {
                assert!(width(&text(&line)) <= room, "{screen}: {line:?}");
            }
        }
    }

    #[test]
    fn paragraphs_break_between_words() {
        assert_eq!(paragraph("channel telegram\nis down", Some(16)), ["  - channel", "    telegram is", "    down"]);
        assert_eq!(paragraph("channel telegram is down", None), ["  - channel telegram is down"]);
        assert_eq!(paragraph("", Some(3)), Vec::<String>::new());
    }
}
