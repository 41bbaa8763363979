//! Tables for a terminal and for `<pre>`: names at the left, numbers at the right.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table, TableComponent, Width};

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableStyle {
    /// Bold where it is wanted.
    Terminal,
    /// Characters only: a file, a pipe.
    Plain,
}

/// A table in the making: names at the left of their column, numbers at the right.
#[derive(Debug)]
pub struct TextTable {
    table: Table,
}

impl TextTable {
    /// A table with this head, one text of one or more lines for each column. The first column is
    /// names, the others are numbers.
    #[must_use]
    pub fn new(style: TableStyle, header: Vec<String>) -> Self {
        let mut table = empty_table(style);
        set_header(&mut table, header);
        Self { table }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<TextCell>) {
        self.table.add_row(cells.into_iter().map(|cell| cell.0));
    }

    /// The table in lines without blanks at their ends.
    #[must_use]
    pub fn finish(&self) -> String {
        trimmed(&self.table)
    }
}

/// One cell of a [`TextTable`].
#[derive(Debug)]
pub struct TextCell(Cell);

impl TextCell {
    /// A name, at the left of its column.
    #[must_use]
    pub fn name(text: &str) -> Self {
        Self(Cell::new(text))
    }

    /// A number, at the right of its column.
    #[must_use]
    pub fn number(text: &str) -> Self {
        Self(Cell::new(text).set_alignment(CellAlignment::Right))
    }

    /// A number with a star, in bold, where it is the best of its column.
    #[must_use]
    pub fn marked(text: &str, best: bool) -> Self {
        if best {
            let Self(cell) = Self::number(&format!("*{text}"));
            Self(cell.add_attribute(Attribute::Bold))
        } else {
            Self::number(text)
        }
    }
}

/// A table without rows and lines, but for the one under its head.
fn empty_table(style: TableStyle) -> Table {
    let mut table = Table::new();
    // Only the line under the head: columns are told apart by their alignment.
    table.load_preset(comfy_table::presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '-');
    table.set_style(TableComponent::MiddleHeaderIntersections, '-');
    match style {
        TableStyle::Terminal => table.enforce_styling(),
        TableStyle::Plain => table.force_no_tty(),
    };
    table
}

/// Sets the head, one text for each column: the first column is text, the others are numbers.
fn set_header(table: &mut Table, header: Vec<String>) {
    let count = header.len();
    table.set_header(header.into_iter().enumerate().map(|(index, text)| {
        let alignment = if index == 0 {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        Cell::new(text).set_alignment(alignment)
    }));
    // With a blank at each side: wide enough for five digits, a comma and a mark, so that columns
    // stand at about equal distance.
    let least = ColumnConstraint::LowerBoundary(Width::Fixed(9));
    for index in 0..count {
        let Some(column) = table.column_mut(index) else {
            continue;
        };
        if index > 0 {
            column.set_constraint(least);
        }
        // Nothing stands at the left of the first column and the right of the last.
        column.set_padding((u16::from(index > 0), u16::from(index + 1 < count)));
    }
}

/// The table without the blanks at the ends of its lines.
fn trimmed(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
