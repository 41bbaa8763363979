use super::super::sample;
use super::page;

#[test]
fn a_page_needs_nothing_from_elsewhere() {
    let page = page(&sample::report());
    let without_namespaces = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(!without_namespaces.contains("http"), "something is fetched");
    assert!(!page.contains("<script"));
    assert!(page.contains("prefers-color-scheme: dark"));
}

#[test]
fn what_machines_call_themselves_is_text() {
    let page = page(&sample::report());
    assert!(page.contains("A &lt;processor&gt;"));
}

#[test]
fn every_workload_has_its_three_plots_and_the_real_part_two() {
    let page = page(&sample::report());
    assert_eq!(page.matches("<svg ").count(), 2 * 3 + 2);
    assert_eq!(
        page.matches("<svg ").count(),
        page.matches("</svg>").count()
    );
}
