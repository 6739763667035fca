"""What operators have to know now: problems, switches and trends. The page, REST, GraphQL and
`reprise top` show the same. Counts for monitoring are in monitoring/, records in admin_site/."""
