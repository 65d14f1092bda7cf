"""The site: what runs its pages, writes the generated ones, and looks at what was built."""
