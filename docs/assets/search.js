// Signs before a word are operators of the search: "-x" leaves out pages with x. Readers type
// options such as --dry-run, so the signs are removed from what is typed.
document.addEventListener(
  "input",
  (event) => {
    if (event.target.matches(".md-search__input")) {
      const words = event.target.value.replace(/(^|\s)[-+~^:*]+/g, "$1");
      if (words !== event.target.value) event.target.value = words;
    }
  },
  true,
);
